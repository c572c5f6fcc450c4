package driver

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// backups lists the VGs of which a backup has been begun.
func (w *world) backups() (vgs []string) {
	for _, c := range w.lvm.Commands() {
		if vg, ok := strings.CutPrefix(c, "vgcfgbackup "); ok {
			vgs = append(vgs, vg)
		}
	}
	return vgs
}

// The changes leave LVM's backup out (-A n); once an hour each VG that was changed gets one, and no other.
func TestKeepBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		go w.d.KeepBackups(t.Context())
		for hour, want := range []int{0, 1, 1, 2, 3, 3} {
			if hour == 1 || hour == 3 {
				w.delete(t, w.create(t, "pvc-1", block, 64*mib))
			}
			w.lvm.SetHook(nil)
			if hour == 3 { // it fails, and is tried again an hour later
				w.lvm.SetHook(onCommand("vgcfgbackup", answer(5)))
			}
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			if got := len(w.backups()); got != want {
				t.Errorf("%d backups after hour %d, want %d", got, hour, want)
			}
		}
	})
}

// What was changed is known to the process only, so it writes the backups before it ends; a VG that it did not change needs none.
func TestCloseBacksUp(t *testing.T) {
	w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}), withVG("vg2", lvmtest.VGOptions{}))
	w.create(t, "pvc-1", block, 64*mib)
	w.create(t, "pvc-2", "ext4", 64*mib, "volumeGroup", "vg2")
	w.restart(t)
	if diff := cmp.Diff([]string{"vg0", "vg2"}, slices.Sorted(slices.Values(w.backups()))); diff != "" {
		t.Errorf("backups at the stop (-want +got):\n%s", diff)
	}
	w.restart(t)
	if got := w.backups(); len(got) != 2 {
		t.Errorf("backups after a run without changes: %q", got)
	}
}

// One VG hangs: the stop takes no longer than it may, and the others have their backups.
func TestCloseDoesNotWaitForABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
		w.create(t, "pvc-1", block, 64*mib)
		w.create(t, "pvc-2", block, 64*mib, "volumeGroup", "vg1")
		release, done := make(chan struct{}), atomic.Int32{}
		w.lvm.SetHook(func(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			if args[0] == "vgcfgbackup" && args[1] == "vg0" {
				<-release
			} else if args[0] == "vgcfgbackup" {
				done.Add(1)
			}
			return run()
		})
		began := time.Now()
		if !w.d.Close() || time.Since(began) != backupGrace || done.Load() != 1 {
			t.Errorf("it took %s, with %d backups of the other VG", time.Since(began), done.Load())
		}
		close(release)
		w.lvm.SetHook(nil)
		w.d = w.newDriver()
	})
}

// After a kill nobody knows what was changed: the start has a backup written of each VG that holds volumes.
func TestStartBacksUp(t *testing.T) {
	w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}), withVG("theirs", lvmtest.VGOptions{}))
	w.lvm.AddForeignLV("theirs", "root", 64*mib)
	w.create(t, "pvc-1", block, 64*mib)
	w.create(t, "pvc-2", block, 64*mib, "volumeGroup", "vg1")
	w.d = w.newDriver() // the one before was killed
	w.d.Start(t.Context())
	if diff := cmp.Diff([]string{"vg0", "vg1"}, slices.Sorted(slices.Values(w.backups()))); diff != "" {
		t.Errorf("backups at the start (-want +got):\n%s", diff)
	}
}
