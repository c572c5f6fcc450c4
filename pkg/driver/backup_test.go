package driver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The changes leave LVM's backup out (-A n); once an hour each VG that was changed gets one, and no other.
func TestKeepBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		go w.d.KeepBackups(t.Context())
		backups := func() (n int) {
			for _, c := range w.lvm.Commands() {
				if strings.HasPrefix(c, "vgcfgbackup") {
					n++
				}
			}
			return n
		}
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
			if got := backups(); got != want {
				t.Errorf("%d backups after hour %d, want %d", got, hour, want)
			}
		}
	})
}
