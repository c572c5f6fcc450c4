package driver

import (
	"errors"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// publishTo publishes a staged volume with an access mode and readonly or not.
func (w *world) publishTo(t *testing.T, id, fs, target string, readOnly bool, mode csi.VolumeCapability_AccessMode_Mode) error {
	t.Helper()
	req := w.publishRequest(id, fs, target)
	req.VolumeCapability, req.Readonly = capability(fs, mode), readOnly
	_, err := rpc(t.Context(), w.d, (*Driver).NodePublishVolume, req)
	return err
}

const (
	writer      = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	reader      = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	onePod      = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	multiWriter = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
)

// topolvm 1225: publishing a block volume twice stacked its mounts.
func TestPublish(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", block} {
		for name, tc := range map[string]struct {
			readOnly bool
			mode     csi.VolumeCapability_AccessMode_Mode
			want     bool // read-only
		}{
			"writer":         {false, writer, false},
			"readonly":       {true, writer, true},
			"reader":         {false, reader, true},
			"single writer":  {false, onePod, false},
			"multi writer":   {false, multiWriter, false},
			"multi readonly": {true, multiWriter, true},
		} {
			t.Run(fs+" "+name, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", fs, 512*mib)
				want := []mounter.Mount{{Path: w.target("a"), Block: true, ReadOnly: tc.want}}
				if fs != block {
					want = []mounter.Mount{{Path: w.staging(id), FSType: fs}, {Path: w.target("a"), FSType: fs, ReadOnly: tc.want}}
				}
				w.stage(t, id, fs)
				for _, when := range []string{"first", "again", "after a restart", "after a reboot"} {
					switch when {
					case "after a restart":
						w.restart(t)
					case "after a reboot":
						w.reboot(t)
						w.stage(t, id, fs)
					}
					if err := w.publishTo(t, id, fs, "a", tc.readOnly, tc.mode); err != nil {
						t.Fatalf("%s: %v", when, err)
					}
					if diff := cmp.Diff(want, w.mountsOf(t, id)); diff != "" {
						t.Errorf("%s, mounts (-want +got):\n%s", when, diff)
					}
				}
				for range 2 {
					w.unpublish(t, id, "a")
					if _, err := os.Lstat(w.target("a")); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the target after unpublishing: %v", err)
					}
				}
				w.unstage(t, id)
				w.delete(t, id)
			})
		}
	}
}

// Some kubelets make the target themselves.
func TestPublishAtATargetThatIsThere(t *testing.T) {
	w := newWorld(t)
	fs, raw := w.create(t, "pvc-1", "ext4", 64*mib), w.create(t, "pvc-2", block, 64*mib)
	if err := os.Mkdir(w.target("dir"), 0o750); err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.target("file"))
	w.publish(t, fs, "ext4", "dir")
	w.publish(t, raw, block, "file")
}

func TestPublishTheOtherWay(t *testing.T) {
	w := newWorld(t)
	id, raw := w.create(t, "pvc-1", "ext4", 64*mib), w.create(t, "pvc-2", block, 64*mib)
	w.publish(t, id, "ext4", "a")
	w.publish(t, raw, block, "b")
	before := w.state(t)
	wantCode(t, w.publishTo(t, id, "ext4", "a", true, writer), codes.AlreadyExists, "readonly", "unpublish it first")
	wantCode(t, w.publishTo(t, id, block, "a", false, writer), codes.AlreadyExists, "volume mode")
	wantCode(t, w.publishTo(t, raw, block, "b", true, writer), codes.AlreadyExists, "readonly")
	wantCode(t, w.publishTo(t, raw, "ext4", "b", false, writer), codes.AlreadyExists, "volume mode")
	unchanged(t, w, before)
}

// A volume whose mount options say "ro" is read-only everywhere, and published as it was asked for.
func TestPublishAVolumeMountedReadOnly(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	staging := w.stageRequest(id, "ext4")
	staging.VolumeCapability.GetMount().MountFlags = []string{"ro"}
	must(t, w.d, (*Driver).NodeStageVolume, staging)
	req := w.publishRequest(id, "ext4", "a")
	req.VolumeCapability = staging.VolumeCapability
	for range 2 {
		must(t, w.d, (*Driver).NodePublishVolume, req)
	}
}

func TestPublishAtTwoTargets(t *testing.T) {
	for _, fs := range []string{"ext4", block} {
		for name, tc := range map[string]struct {
			mode csi.VolumeCapability_AccessMode_Mode
			code codes.Code
		}{
			"single writer": {onePod, codes.FailedPrecondition}, // ReadWriteOncePod
			"multi writer":  {multiWriter, codes.OK},
			"writer":        {writer, codes.OK}, // ReadWriteOnce is of a node, not of a pod
			"reader":        {reader, codes.OK},
		} {
			t.Run(fs+" "+name, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", fs, 64*mib)
				w.stage(t, id, fs)
				wantCode(t, w.publishTo(t, id, fs, "a", false, tc.mode), codes.OK)
				for range 2 {
					wantCode(t, w.publishTo(t, id, fs, "b", false, tc.mode), tc.code)
				}
				if tc.code != codes.OK {
					wantCode(t, w.publishTo(t, id, fs, "b", false, tc.mode), tc.code, "ReadWriteOncePod", w.target("a"))
					if _, err := os.Lstat(w.target("b")); err == nil {
						t.Error("the refused target was made")
					}
					w.unpublish(t, id, "a")
					wantCode(t, w.publishTo(t, id, fs, "b", false, tc.mode), codes.OK)
					return
				}
				w.unpublish(t, id, "a")
				if got := w.mountsOf(t, id); len(got) == 0 || got[len(got)-1].Path != w.target("b") {
					t.Errorf("after one of them was unpublished: %+v", got)
				}
			})
		}
	}
}

// An older driver stacked mounts: all of them are undone.
func TestUnpublishAndUnstageStackedMounts(t *testing.T) {
	w := newWorld(t)
	id, raw := w.create(t, "pvc-1", "ext4", 64*mib), w.create(t, "pvc-2", block, 64*mib)
	w.publish(t, id, "ext4", "a")
	w.publish(t, raw, block, "b")
	for range 3 {
		if err := errors.Join(
			w.mounter.Bind(t.Context(), w.staging(id), w.target("a"), false),
			w.mounter.Bind(t.Context(), w.staging(id), w.staging(id), false),
			w.mounter.Bind(t.Context(), "/dev/mapper/vg0-pvc--2", w.target("b"), false),
		); err != nil {
			t.Fatal(err)
		}
	}
	w.unpublish(t, id, "a")
	w.unpublish(t, raw, "b")
	w.unstage(t, id)
	if got, err := w.mounter.Mounts(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("left: %+v, %v", got, err)
	}
}

// kubelet's folder may be behind a symbolic link (topolvm 406: it is elsewhere with microk8s and k0s); the kernel's mount table
// has real paths.
func TestPathsBehindSymbolicLinks(t *testing.T) {
	w := newWorld(t)
	real, link := w.target("real"), w.target("link")
	if err := errors.Join(os.Mkdir(real, 0o750), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	for _, fs := range []string{"ext4", block} {
		id := w.create(t, "pvc-"+fs, fs, 64*mib)
		stage, publish := w.stageRequest(id, fs), w.publishRequest(id, fs, "")
		var mounts []mounter.Mount
		for _, dir := range []string{link, real, link} {
			stage.StagingTargetPath = dir + "/new/staging"
			publish.StagingTargetPath, publish.TargetPath = dir+"/new/staging", dir+"/new/target"
			must(t, w.d, (*Driver).NodeStageVolume, stage)
			must(t, w.d, (*Driver).NodePublishVolume, publish)
			must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: dir + "/new/target"})
			must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, dir+"/new/target", 64*mib))
			if mounts == nil {
				mounts = w.mountsOf(t, id)
			}
			if diff := cmp.Diff(mounts, w.mountsOf(t, id)); diff != "" {
				t.Errorf("fs %s, mounts by way of %s (-before +after):\n%s", fs, dir, diff)
			}
		}
		must(t, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(id, link+"/new/target"))
		must(t, w.d, (*Driver).NodeUnstageVolume, unstageRequest(id, link+"/new/staging"))
		if got := w.mountsOf(t, id); len(got) != 0 {
			t.Errorf("fs %s, left mounted: %+v", fs, got)
		}
		w.delete(t, id)
	}
}

// A target that Bind could not be made at is not left behind, and one that was there is left alone.
func TestPublishFails(t *testing.T) {
	w := newWorld(t, withFaults(faultyMounter{bind: func() error { return errors.New("mount failed") }}))
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.stage(t, id, "ext4")
	if err := os.Mkdir(w.target("there"), 0o750); err != nil {
		t.Fatal(err)
	}
	before := w.state(t)
	fails(t, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, "ext4", "a"), codes.Internal, "mount failed")
	fails(t, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, "ext4", "there"), codes.Internal, "mount failed")
	unchanged(t, w, before)
}

// What is in a target that is not mounted is somebody's.
func TestUnpublishKeepsFiles(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.publish(t, id, "ext4", "a")
	w.unpublish(t, id, "a")
	if err := os.Mkdir(w.target("a"), 0o750); err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.target("a/data"))
	fails(t, w.d, (*Driver).NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.target("a")}, codes.Internal, "not empty")
	if _, err := os.Stat(w.target("a/data")); err != nil {
		t.Error(err)
	}
}

// What is mounted at the path is another volume's: the volume is not there, and the other one stays.
func TestUnmountingLeavesAnotherVolumeAlone(t *testing.T) {
	for _, fs := range []string{"ext4", block} {
		w := newWorld(t)
		a, b := w.create(t, "pvc-a", fs, 64*mib), w.create(t, "pvc-b", fs, 64*mib)
		w.publish(t, a, fs, "a")
		w.publish(t, b, fs, "b")
		before := w.state(t)
		for range 2 {
			must(t, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(a, w.target("b")))
			must(t, w.d, (*Driver).NodeUnstageVolume, unstageRequest(a, w.staging(b)))
		}
		unchanged(t, w, before)
		w.unpublish(t, b, "b")
		w.unstage(t, b)
		if got := w.mountsOf(t, b); len(got) != 0 {
			t.Errorf("mounts of the other: %+v", got)
		}
	}
}

// Whose volume has no device, or whose ID is none, is told nothing: what is there is unmounted, or kubelet would ask for ever.
func TestUnmountingOfAVolumeThatIsGone(t *testing.T) {
	for _, gone := range []string{"vg0/pvc-9:35971be6", "vg9/pvc-1:35971be6", "nonsense"} {
		w := newWorld(t)
		id := w.create(t, "pvc-1", "ext4", 64*mib)
		w.publish(t, id, "ext4", "a")
		must(t, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(gone, w.target("a")))
		must(t, w.d, (*Driver).NodeUnstageVolume, unstageRequest(gone, w.staging(id)))
		if got := w.mountsOf(t, id); len(got) != 0 {
			t.Errorf("%s: mounts are left: %+v", gone, got)
		}
	}
}
