package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// topolvm 1150: a raw block volume showed the bytes of the tenant before.
func TestNextTenantReads(t *testing.T) {
	for erase, want := range map[string][]string{"zero": nil, "discard": nil, "none": {"secret"}} {
		for _, fs := range []string{block, "ext4"} {
			for _, inactive := range []bool{false, true} {
				w := newWorld(t)
				id := w.create(t, "pvc-1", fs, 4*gib, "erase", erase)
				w.lvm.Stain("vg0", "pvc-1", "secret")
				if inactive {
					w.reboot(t)
				}
				w.delete(t, id)
				next := w.create(t, "pvc-2", block, 4*gib)
				if diff := cmp.Diff(want, w.lvm.Stains(lvOf(next))); diff != "" {
					t.Errorf("erase %s, fs %s, inactive %t (-want +got):\n%s", erase, fs, inactive, diff)
				}
			}
		}
	}
}

// Also what was never handed out may have been written to by mkfs alone; the extents it did not write were erased before.
func TestEraseIsForWhatWasHandedOut(t *testing.T) {
	w := newWorld(t)
	fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", "ext4", 64*mib, "mkfsOptions", "--bad"), codes.InvalidArgument)
	for _, call := range w.mounter.Calls() {
		if call == "Erase /dev/mapper/vg0-pvc--1 zero" {
			t.Error("a volume that nobody had was erased")
		}
	}
}

// Erasing a disk takes hours: a stop does not wait for it, and the next start or the next call goes on.
func TestInterruptedErase(t *testing.T) {
	for name, resume := range map[string]func(t *testing.T, w *world, id string){
		"goes on at the start":      func(t *testing.T, w *world, _ string) { w.d.Start(t.Context()) },
		"goes on at the next call":  func(t *testing.T, w *world, id string) { w.delete(t, id) },
		"goes on at both":           func(t *testing.T, w *world, id string) { w.d.Start(t.Context()); w.delete(t, id) },
		"goes on after a reboot":    func(t *testing.T, w *world, id string) { w.mounter.Reboot(); w.d.Start(t.Context()) },
		"makes room for a new name": func(t *testing.T, w *world, id string) { w.create(t, "pvc-1", block, 64*mib); w.delete(t, id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", "ext4", 64*mib)
				w.lvm.Stain("vg0", "pvc-1", "secret")
				entered, release := w.mounter.Block("Erase", "vg0", "pvc-1")
				defer release()
				answered := make(chan error)
				go func() {
					_, err := rpc(t.Context(), w.d, (*Driver).DeleteVolume, deleteRequest(id))
					answered <- err
				}()
				<-entered
				stopped := time.Now()
				go w.d.Close()
				wantCode(t, <-answered, codes.Unavailable, "erasing")
				if took := time.Since(stopped); took != 0 {
					t.Errorf("the stop took %s", took)
				}
				w.restart(t)
				if r, _ := w.d.tags.read(w.find(id)); r.state != deleting {
					t.Fatalf("after the stop its tags say %+v", r)
				}
				// It must not be mounted again, half erased as it is.
				fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.FailedPrecondition, "being deleted")
				resume(t, w, id)
				if got := w.names("vg0"); len(got) != 0 {
					t.Errorf("left: %q", got)
				}
				next := w.create(t, "pvc-2", block, 64*mib)
				if got := w.lvm.Stains(lvOf(next)); len(got) != 0 {
					t.Errorf("the next tenant reads %q", got)
				}
			})
		})
	}
}

// Start goes on with the others when one deletion cannot be finished.
func TestStartGoesOnBeyondAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ids := []string{w.create(t, "a", block, 64*mib), w.create(t, "b", block, 64*mib), w.create(t, "c", block, 64*mib)}
		for _, id := range ids {
			vg, lv := lvOf(id)
			if err := w.d.lvm.Retag(t.Context(), vg, lv, w.d.tags.state(deleting), ""); err != nil {
				t.Fatal(err)
			}
		}
		w.lvm.SetOpen("vg0", "b", 1)
		w.restart(t)
		w.d.Start(t.Context())
		if diff := cmp.Diff([]string{"b"}, w.names("vg0")); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		w.lvm.SetOpen("vg0", "b", 0)
		w.delete(t, ids[1])
	})
}

// What Start saw may be long past when it comes to it: a volume of that name may be somebody's by now.
func TestStartDoesNotDeleteWhatHasBeenMadeSince(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	if err := w.d.lvm.Retag(t.Context(), "vg0", "pvc-1", w.d.tags.state(deleting), ""); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	seen, err := w.d.look(t.Context(), "vg0")
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, "pvc-1", "ext4", 64*mib) // removes what was being deleted, and makes it anew
	w.lvm.Stain("vg0", "pvc-1", "data")
	w.d.takeUp(t.Context(), seen[0], w.d.remember(seen[0]))
	if w.find(id) == nil {
		t.Fatal("a new volume was deleted")
	}
	if diff := cmp.Diff([]string{"data"}, w.lvm.Stains("vg0", "pvc-1")); diff != "" {
		t.Errorf("a new volume was erased (-want +got):\n%s", diff)
	}
}

// A copy of a VG by vgimportclone has the tags of its original: they name volumes that are not in it.
func TestStartLeavesTheOriginalOfACopyAlone(t *testing.T) {
	w := newWorld(t, withVG("copy", lvmtest.VGOptions{}), withConfig(func(c *Config) { c.DefaultVG = "" }))
	id := w.create(t, "pvc-1", "ext4", 64*mib, "volumeGroup", "vg0")
	w.lvm.AddForeignLV("copy", "pvc-1", 64*mib, append(w.find(id).Tags, w.d.tags.state(deleting))...)
	w.restart(t)
	w.d.Start(t.Context())
	if w.find(id) == nil {
		t.Error("the original was deleted")
	}
	if w.find("copy/pvc-1") == nil {
		t.Error("the copy was deleted, although no ID names it")
	}
}

// When the metadata area is full even a tag cannot be added. Deletion makes room.
func TestFullMetadataAreaStillDeletes(t *testing.T) {
	for _, erase := range []string{"zero", "none"} {
		w := newWorld(t, withVG("vg0", lvmtest.VGOptions{PVs: []int64{gib}, MetadataSize: 18 << 10}))
		var ids []string
		for n := range 200 {
			resp, err := rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-"+string(rune('a'+n/26))+string(rune('a'+n%26)), block, 4*mib, "erase", erase))
			if err != nil {
				wantCode(t, err, codes.ResourceExhausted, "metadata")
				break
			}
			ids = append(ids, resp.GetVolume().GetVolumeId())
		}
		for w.d.lvm.Retag(t.Context(), "vg0", w.names("vg0")[0], "filler-"+string(rune('a'+len(w.find(ids[0]).Tags))), "") == nil {
		}
		for _, id := range ids {
			vg, lv := lvOf(id)
			w.lvm.Stain(vg, lv, "secret")
		}
		for _, id := range ids {
			w.delete(t, id)
		}
		if got := w.names("vg0"); len(got) != 0 || len(ids) < 10 {
			t.Errorf("erase %s: of %d volumes %q are left", erase, len(ids), got)
		}
		next := w.create(t, "next", block, gib, "erase", erase)
		if got := w.lvm.Stains(lvOf(next)); (len(got) == 0) != (mounter.Erase(erase) == mounter.EraseZero) {
			t.Errorf("erase %s: the next tenant reads %q", erase, got)
		}
	}
}

// Nothing is told of the volume's end before its bytes are gone.
func TestOrderOfDeletion(t *testing.T) {
	var w *world
	var atErase []string
	w = newWorld(t, withFaults(faultyMounter{erase: func() error {
		atErase = w.find("vg0/pvc-1").Tags
		return nil
	}}))
	id := w.create(t, "pvc-1", block, 64*mib)
	w.delete(t, id)
	if len(atErase) == 0 || atErase[len(atErase)-2] != "lvm-csi.io/state=deleting" {
		t.Errorf("erased with tags %q", atErase)
	}
}
