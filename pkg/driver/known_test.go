package driver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// replace removes the LV of a volume and makes another one of its name, as an administrator may.
func (w *world) replace(t *testing.T, id string, tags ...string) {
	t.Helper()
	vg, lv := lvOf(id)
	size := w.find(id).Size
	if err := lvm.New(w.lvm).Remove(t.Context(), vg, lv, w.d.tags.id(id)); err != nil {
		t.Fatal(err)
	}
	w.lvm.AddForeignLV(vg, lv, size, tags...)
	w.lvm.SetContents(vg, lv, "ext4")
}

// What the driver knows of an LV is not true of the next one of that name.
func TestKnownIsNotAnotherLVOfThatName(t *testing.T) {
	for _, how := range []string{"as it is", "after a restart", "inactive"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			id := w.create(t, "pvc-1", "ext4", 64*mib)
			if how == "after a restart" {
				w.restart(t)
				w.d.Start(t.Context())
			}
			w.replace(t, id)
			if how == "inactive" {
				w.lvm.Deactivate("vg0", "pvc-1")
			}
			size := w.find(id).Size
			for range 2 {
				fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.NotFound, "does not carry that ID")
				fails(t, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, "ext4", "a"), codes.NotFound)
				fails(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.staging(id), 128*mib), codes.NotFound)
			}
			if got := w.find(id).Size; got != size {
				t.Errorf("somebody's LV has %d bytes, and had %d", got, size)
			}
		})
	}
}

// One that carries the ID, such as a copy made by hand, is the volume: that costs one report.
func TestKnownFollowsACopy(t *testing.T) {
	w := newWorld(t)
	w.warm(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.replace(t, id, w.find(id).Tags...)
	got := w.spent(func() { w.publish(t, id, "ext4", "a") })
	if diff := cmp.Diff([]string{report}, got); diff != "" {
		t.Errorf("lvm commands (-want +got):\n%s", diff)
	}
}
