package driver

import (
	"context"
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

func TestCreate(t *testing.T) {
	for _, fs := range []string{block, "ext4", "xfs", "btrfs", ""} {
		t.Run("fs "+fs, func(t *testing.T) {
			w := newWorld(t)
			want := &csi.CreateVolumeResponse{Volume: &csi.Volume{
				VolumeId: "vg0/pvc-1:35971be6", CapacityBytes: 512 * mib,
				AccessibleTopology: []*csi.Topology{{Segments: map[string]string{"topology.lvm-csi.io/node": "node-1"}}},
			}}
			req := createRequest("pvc-1", fs, 512*mib, "csi.storage.k8s.io/pv/name", "pvc-1")
			req.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{
				{Segments: map[string]string{"topology.lvm-csi.io/node": "node-2"}},
				{Segments: map[string]string{"topology.lvm-csi.io/node": "node-1"}},
			}}
			for _, when := range []string{"first", "again", "after a restart", "after a reboot"} {
				switch when {
				case "after a restart":
					w.restart(t)
				case "after a reboot":
					w.reboot(t)
				}
				got := must(t, w.d, (*Driver).CreateVolume, req)
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
			}
			contents := map[string]string{block: "", "": "ext4"}
			holds, special := contents[fs]
			if !special {
				holds = fs
			}
			if got := w.lvm.Contents("vg0", "pvc-1"); got != holds {
				t.Errorf("it holds %q, want %q", got, holds)
			}
			if r, ok := w.d.tags.read(w.find("vg0/pvc-1")); !ok || r.state != ready || r.name != "pvc-1" {
				t.Errorf("its tags say %+v", r)
			}
		})
	}
}

func TestCreateUsesMkfsOptions(t *testing.T) {
	w := newWorld(t)
	w.create(t, "pvc-1", "xfs", 512*mib, "mkfsOptions", "  -m  reflink=0 ")
	if diff := cmp.Diff([]string{"-m", "reflink=0"}, w.mounter.MkfsOptions("vg0", "pvc-1")); diff != "" {
		t.Errorf("words for mkfs (-want +got):\n%s", diff)
	}
}

// metal-stack/csi-driver-lvm 140: a volume that is there is not formatted, however often it is asked for.
func TestCreateAgainKeepsTheData(t *testing.T) {
	w := newWorld(t)
	w.create(t, "pvc-1", "ext4", 64*mib)
	w.lvm.Stain("vg0", "pvc-1", "data")
	w.lvm.SetContents("vg0", "pvc-1", "") // a probe that sees nothing is no reason either
	for range 2 {
		w.create(t, "pvc-1", "ext4", 64*mib)
		w.restart(t)
	}
	if diff := cmp.Diff([]string{"data"}, w.lvm.Stains("vg0", "pvc-1")); diff != "" || w.lvm.Contents("vg0", "pvc-1") != "" {
		t.Errorf("it was written to (-want +got):\n%s", diff)
	}
}

// A name that is taken by what is not as asked is AlreadyExists, and stays as it is.
func TestCreateWhatExistsOtherwise(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(t *testing.T, w *world)
		req   *csi.CreateVolumeRequest
		words []string
	}{
		"another filesystem": {
			given: func(t *testing.T, w *world) { w.create(t, "pvc-1", "xfs", 512*mib) },
			req:   createRequest("pvc-1", "ext4", 512*mib), words: []string{"pvc-1", "xfs", "ext4"},
		},
		"block": {
			given: func(t *testing.T, w *world) { w.create(t, "pvc-1", block, 64*mib) },
			req:   createRequest("pvc-1", "ext4", 64*mib), words: []string{"pvc-1", "block", "ext4"},
		},
		"another way to erase": {
			given: func(t *testing.T, w *world) { w.create(t, "pvc-1", block, 64*mib, "erase", "none") },
			req:   createRequest("pvc-1", block, 64*mib), words: []string{"pvc-1", "erase", "none", "zero"},
		},
		"somebody's": {
			given: func(_ *testing.T, w *world) { w.lvm.AddForeignLV("vg0", "pvc-1", 64*mib, "theirs") },
			req:   createRequest("pvc-1", block, 64*mib), words: []string{"vg0/pvc-1", "not this driver's", "rename"},
		},
		"another node's": { // its disk was moved here
			given: func(t *testing.T, w *world) {
				w.config.NodeID = "node-2"
				w.newDriverFor(t, func(d *Driver) { must(t, d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*mib)) })
				w.config.NodeID = "node-1"
			},
			req: createRequest("pvc-1", block, 64*mib), words: []string{"vg0/pvc-1", "not this driver's"},
		},
		"a volume whose LV has the name for another reason": {
			given: func(t *testing.T, w *world) { w.create(t, "a/b", block, 64*mib) },
			req:   createRequest(lvName("a/b"), block, 64*mib), words: []string{`"a/b"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.given(t, w)
			before := w.state(t)
			for range 2 {
				fails(t, w.d, (*Driver).CreateVolume, tc.req, codes.AlreadyExists, tc.words...)
				w.restart(t)
			}
			unchanged(t, w, before)
		})
	}
}

// newDriverFor lends a driver of w's configuration as it is now.
func (w *world) newDriverFor(t *testing.T, use func(*Driver)) {
	t.Helper()
	d := w.newDriver()
	use(d)
	if !d.Close() {
		t.Error("the driver did not stop")
	}
}

// A device that is smaller than the LV that was asked for is not formatted, nor handed out.
func TestCreateOnADeviceThatIsTooSmall(t *testing.T) {
	for _, fs := range []string{"ext4", block} {
		w := newWorld(t)
		w.lvm.SetHook(onCommand("lvcreate", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			out, err := run()
			if out.Code == 0 {
				w.lvm.Lag("vg0", "pvc-1", 8)
			}
			return out, err
		}))
		for range 2 {
			fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", fs, 64*mib), codes.Unavailable, "has 33554432 bytes")
		}
		if got := w.lvm.Contents("vg0", "pvc-1"); got != "" {
			t.Errorf("it holds %s", got)
		}
		w.lvm.SetHook(nil)
		w.lvm.Lag("vg0", "pvc-1", 0)
		w.create(t, "pvc-1", fs, 64*mib)
	}
}

// What an earlier call began and nobody was given is finished, or made anew if something else is asked for now.
func TestCreateWhatIsHalfMade(t *testing.T) {
	for name, tc := range map[string]struct {
		tags func(r *record) // of the LV that is there, 64 MiB
		same bool            // it is finished as it is
	}{
		"as asked":             {func(*record) {}, true},
		"another filesystem":   {func(r *record) { r.fs = "xfs" }, false},
		"another way to erase": {func(r *record) { r.erase = mounter.EraseNone }, false},
		"being deleted":        {func(r *record) { r.state = deleting }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := record{id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: "ext4", erase: mounter.EraseZero, state: creating}
			tc.tags(&r)
			w.lvm.AddForeignLV("vg0", "pvc-1", 64*mib, w.d.tags.write(r)...)
			w.lvm.SetContents("vg0", "pvc-1", "half an ext4")
			uuid := w.find("vg0/pvc-1").UUID
			id := w.create(t, "pvc-1", "ext4", 64*mib)
			lv := w.find(id)
			got, ok := w.d.tags.read(lv)
			want := record{id: id, name: "pvc-1", fs: "ext4", erase: mounter.EraseZero}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); !ok || diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
			if (lv.UUID == uuid) != tc.same {
				t.Errorf("the LV is the same: %t, want %t", lv.UUID == uuid, tc.same)
			}
			if got := w.lvm.Contents("vg0", "pvc-1"); got != "ext4" {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

// A final code means that nothing is left: external-provisioner forgets the volume then (external-provisioner 486, topolvm 1111,
// pmem-csi 404, 823: LVs left behind).
func TestFinalCodeLeavesNothing(t *testing.T) {
	refused := createRequest("pvc-1", "ext4", 64*mib, "mkfsOptions", "--bad")
	t.Run("what was made is removed", func(t *testing.T) {
		w := newWorld(t)
		fails(t, w.d, (*Driver).CreateVolume, refused, codes.InvalidArgument, "mkfsOptions")
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("what an earlier call made is removed", func(t *testing.T) {
		w := newWorld(t)
		w.lvm.AddForeignLV("vg0", "pvc-1", 64*mib, w.d.tags.write(record{id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: "ext4", state: creating})...)
		fails(t, w.d, (*Driver).CreateVolume, refused, codes.InvalidArgument, "mkfsOptions")
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("what cannot be removed is asked for again", func(t *testing.T) {
		w := newWorld(t)
		w.lvm.SetHook(onCommand("lvremove", answer(5)))
		for range 2 {
			fails(t, w.d, (*Driver).CreateVolume, refused, codes.Unavailable, "mkfsOptions", "could not be removed")
		}
		w.lvm.SetHook(nil)
		fails(t, w.d, (*Driver).CreateVolume, refused, codes.InvalidArgument, "mkfsOptions")
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("mkfs fails", func(t *testing.T) {
		w := newWorld(t, withFaults(faultyMounter{format: func() error { return errors.New("no space left") }}))
		fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", "ext4", 64*mib), codes.Internal, "formatting", "no space left")
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}
