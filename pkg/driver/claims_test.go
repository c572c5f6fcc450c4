package driver

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// held is a hook that keeps lvm commands of a name from running until release is closed.
func held(command string) (hook lvmtest.Hook, release chan struct{}) {
	release = make(chan struct{})
	return onCommand(command, func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		<-release
		return run()
	}), release
}

// What is being created is no longer there for others: the one that lvcreate works at, and those that wait for their turn.
func TestCapacityWithoutWhatIsBeingCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withVG("vg1", lvmtest.VGOptions{PVs: []int64{gib}}))
		w.warm(t)
		hook, release := held("lvcreate")
		w.lvm.SetHook(hook)
		for _, req := range []string{"pvc-1", "pvc-2", "pvc-3"} {
			go func() {
				if err := callErr(t.Context(), w.d, (*Driver).CreateVolume, createRequest(req, block, gib-1)); err != nil { // an extent is taken whole
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		for range 2 {
			if got := w.free(t); got != gib {
				t.Errorf("%d are free while 3 of 4 GiB are being created", got)
			}
		}
		if got := w.d.room(t.Context(), "vg1").Available; got != gib {
			t.Errorf("%d are free in another volume group", got)
		}
		close(release)
		synctest.Wait()
		if got := w.free(t); got != gib {
			t.Errorf("%d are free after 3 of 4 GiB were created", got)
		}
		w.create(t, "pvc-4", block, gib)
	})
}

// A volume that was made meanwhile is in the report, and is not taken off a second time; one that failed takes nothing.
func TestClaimsEnd(t *testing.T) {
	w := newWorld(t)
	vg := func() *lvm.VG { return w.lvm.Report("vg0") }
	w.create(t, "pvc-1", block, gib)
	claimed := map[string]int64{"pvc-1": gib, "pvc-2": gib, "huge": maxSize}
	if got := less(w.d.roomOf(vg()), vg(), claimed).Available; got != 2*gib {
		t.Errorf("%d are free beside 1 GiB made and 1 GiB on its way", got)
	}
	fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-3", block, 64*gib), codes.ResourceExhausted)
	w.create(t, "pvc-1", block, gib)
	if got := w.d.claims.of("vg0"); len(got) != 0 {
		t.Errorf("claims left: %v", got)
	}
	if got := w.free(t); got != 3*gib {
		t.Errorf("%d are free", got)
	}
}

// A volume that grows takes what it lacks.
func TestCapacityWithoutWhatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", block, gib)
		w.publish(t, id, block, "a")
		hook, release := held("lvextend")
		w.lvm.SetHook(hook)
		go func() {
			if err := callErr(t.Context(), w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 3*gib)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if got := w.free(t); got != gib {
			t.Errorf("%d are free while 1 of 4 GiB grows to 3", got)
		}
		close(release)
		synctest.Wait()
		if got := w.free(t); got != gib {
			t.Errorf("%d are free afterwards", got)
		}
	})
}
