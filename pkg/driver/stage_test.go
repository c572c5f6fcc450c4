package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// mountsOf lists what is mounted of a volume, without its device's number.
func (w *world) mountsOf(t *testing.T, id string) []mounter.Mount {
	t.Helper()
	dev, err := w.mounter.Device(t.Context(), splitID(id).vg, splitID(id).lv)
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.mounter.Mounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var here []mounter.Mount
	for _, m := range all {
		if m.DeviceID == dev.ID {
			m.DeviceID = ""
			here = append(here, m)
		}
	}
	return here
}

func splitID(id string) volumeID {
	vg, lv := lvOf(id)
	return volumeID{vg: vg, lv: lv}
}

func TestStage(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs", "", block} {
		t.Run("fs "+fs, func(t *testing.T) {
			w := newWorld(t)
			id := w.create(t, "pvc-1", fs, 512*mib)
			var want []mounter.Mount
			if fs != block {
				want = []mounter.Mount{{Path: w.staging(id), FSType: w.lvm.Contents("vg0", "pvc-1")}}
			}
			for _, when := range []string{"first", "again", "after a restart", "after a reboot"} {
				switch when {
				case "after a restart":
					w.restart(t)
				case "after a reboot":
					w.reboot(t)
				}
				w.stage(t, id, fs)
				if diff := cmp.Diff(want, w.mountsOf(t, id)); diff != "" {
					t.Errorf("%s, mounts (-want +got):\n%s", when, diff)
				}
			}
			for range 2 {
				w.unstage(t, id)
				if got := w.mountsOf(t, id); len(got) != 0 {
					t.Errorf("after unstaging: %+v", got)
				}
			}
		})
	}
}

// Mounting never formats, whatever it finds; see also "stage a blank device" and its neighbours in TestBadNodeRequests.
func TestStageNeverFormats(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	before := len(w.mounter.Calls())
	for _, contents := range []string{"", "xfs", "LVM2_member", "gpt", "ext4"} {
		w.lvm.SetContents("vg0", "pvc-1", contents)
		_, _ = rpc(t.Context(), w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"))
		if got := w.lvm.Contents("vg0", "pvc-1"); got != contents {
			t.Errorf("it held %q and holds %q", contents, got)
		}
	}
	for _, call := range w.mounter.Calls()[before:] {
		if strings.HasPrefix(call, "Format") {
			t.Error(call)
		}
	}
}

// hetznercloud/csi-driver 1346: an unreadable device looked blank and was formatted.
func TestStageUnreadableDevice(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.mounter.SetUnreadable("vg0", "pvc-1", true)
	before := w.state(t)
	fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.Unavailable, "reading /dev/mapper/vg0-pvc--1")
	unchanged(t, w, before)
	w.mounter.SetUnreadable("vg0", "pvc-1", false)
	w.stage(t, id, "ext4")
}

func TestStageDamagedFilesystem(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.mounter.SetDamaged("vg0", "pvc-1", true)
	fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.Internal, "damaged", "repair it by hand")
	if got := w.mountsOf(t, id); len(got) != 0 {
		t.Errorf("mounted: %+v", got)
	}
}

// A filesystem that is mounted is not checked: fsck would fail on it, or worse.
func TestStageAtASecondPath(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.stage(t, id, "ext4")
	second := w.stageRequest(id, "ext4")
	second.StagingTargetPath = w.target("second")
	before := len(w.mounter.Calls())
	must(t, w.d, (*Driver).NodeStageVolume, second)
	if got := w.mountsOf(t, id); len(got) != 2 {
		t.Errorf("mounted: %+v", got)
	}
	for _, call := range w.mounter.Calls()[before:] {
		if strings.HasPrefix(call, "Check") {
			t.Error(call)
		}
	}
}

// A context="…c1,c2" of SELinux is one flag with a comma.
func TestStagePassesMountFlags(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	req := w.stageRequest(id, "ext4")
	flags := []string{"noatime", `context="system_u:object_r:container_file_t:s0:c1,c2"`}
	req.VolumeCapability.GetMount().MountFlags = flags
	must(t, w.d, (*Driver).NodeStageVolume, req)
	if diff := cmp.Diff(flags, w.mounter.MountOptions(w.staging(id))); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// A volume of which CreateVolume has not answered yet was handed to nobody; one that is being deleted is no longer anybody's.
func TestStageWhatIsNoVolumeNow(t *testing.T) {
	for name, tc := range map[string]struct {
		state state
		code  codes.Code
		word  string
	}{
		"creating": {creating, codes.Unavailable, "still being created"},
		"deleting": {deleting, codes.FailedPrecondition, "being deleted"},
	} {
		for _, fs := range []string{"ext4", block} {
			for _, byHand := range []bool{false, true} {
				t.Run(name+" "+fs, func(t *testing.T) {
					w := newWorld(t)
					id := w.create(t, "pvc-1", fs, 64*mib)
					if byHand {
						id = "vg0/pvc-1"
						w.publish(t, id, fs, "before") // so the driver has known it as good
						w.unpublish(t, id, "before")
						w.unstage(t, id)
					}
					if err := w.d.lvm.Retag(t.Context(), "vg0", "pvc-1", w.d.tags.state(tc.state), ""); err != nil {
						t.Fatal(err)
					}
					w.restart(t)
					w.d.known.remember(map[string]string{"vg0/other": "x"})
					fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, fs), tc.code, tc.word)
					fails(t, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, fs, "a"), tc.code, tc.word)
					fails(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 128*mib), tc.code, tc.word)
				})
			}
		}
	}
}

// Whoever knew the volume under a hand-written ID must not go on knowing it either.
func TestStageByHandWhatIsBeingDeleted(t *testing.T) {
	var w *world
	var during error
	w = newWorld(t, withFaults(faultyMounter{erase: func() error { return mounter.ErrSuspended }}))
	id := w.create(t, "pvc-1", block, 64*mib)
	w.stage(t, "vg0/pvc-1", block)
	fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.Unavailable) // half erased
	_, during = rpc(t.Context(), w.d, (*Driver).NodePublishVolume, w.publishRequest("vg0/pvc-1", block, "a"))
	wantCode(t, during, codes.FailedPrecondition, "being deleted")
}

func TestStageOnAMissingDisk(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 4*gib)
	disk := w.lvm.AddPV("vg0", gib)
	other := w.create(t, "pvc-2", "ext4", gib) // on the other disk
	w.reboot(t)
	w.lvm.SetMissing("vg0", disk, true)
	for range 2 {
		fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(other, "ext4"), codes.Unavailable, "missing", "bring its disk back")
	}
	w.stage(t, id, "ext4") // a VG that is partial has volumes that are not
	w.lvm.SetMissing("vg0", disk, false)
	w.stage(t, other, "ext4")
}

// A device that an lvm left suspended when it was killed is put right by the call that needs it: kubelet has no other to make.
func TestStageWhatAKilledLVMLeft(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.lvm.Strand("vg0", "pvc-1")
	w.restart(t)
	if _, err := rpc(t.Context(), w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4")); err != nil {
		w.stage(t, id, "ext4")
	}
}

// Also the writers of volumes that are mounted hang: they have no call to make.
func TestStartRepairsWhatAKilledLVMLeft(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.publish(t, id, "ext4", "a")
	w.lvm.Strand("vg0", "pvc-1")
	w.restart(t)
	w.d.Start(t.Context())
	if lv := w.find(id); lv.Suspended || lv.InactiveTable {
		t.Errorf("after the start: suspended %t, inactive table %t", lv.Suspended, lv.InactiveTable)
	}
}

// Unstaging needs neither LVM nor the volume: kubelet retries any error for ever.
func TestUnstageAndUnpublishWhatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		id    string
		given func(w *world)
	}{
		"the LV is gone":          {"vg0/pvc-9:35971be6", func(*world) {}},
		"the VG is gone":          {"vg9/pvc-1:35971be6", func(*world) {}},
		"the disk is gone":        {"vg0/pvc-1:35971be6", func(w *world) { w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true) }},
		"another node's":          {"vg0/pvc-1:00000000", func(*world) {}},
		"the ID cannot be":        {"rubbish", func(*world) {}},
		"LVM hangs":               {"vg0/pvc-1:35971be6", func(w *world) { w.lvm.SetHook(hang) }},
		"the device is suspended": {"vg0/pvc-1:35971be6", func(w *world) { w.lvm.SetSuspended("vg0", "pvc-1", true) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			real := w.create(t, "pvc-1", "ext4", 64*mib)
			w.publish(t, real, "ext4", "a")
			tc.given(w)
			defer w.lvm.SetHook(nil)
			got := w.spent(func() {
				for range 2 {
					w.unpublish(t, tc.id, "a")
					must(t, w.d, (*Driver).NodeUnstageVolume, &csi.NodeUnstageVolumeRequest{VolumeId: tc.id, StagingTargetPath: w.staging(real)})
				}
			})
			if all, _ := w.mounter.Mounts(t.Context()); len(all) != 0 || len(got) != 0 {
				t.Errorf("left mounted: %+v; commands: %q", all, got)
			}
		})
	}
}

func TestUnstageBusy(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.publish(t, id, "ext4", "a")
	w.mounter.SetBusy(w.target("a"), true)
	req := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.target("a")}
	fails(t, w.d, (*Driver).NodeUnpublishVolume, req, codes.FailedPrecondition, w.target("a"))
	w.mounter.SetBusy(w.target("a"), false)
	must(t, w.d, (*Driver).NodeUnpublishVolume, proto.CloneOf(req))
}
