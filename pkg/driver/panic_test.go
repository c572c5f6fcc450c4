package driver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// A panic is a fault of one call, not the end of all: it is Unavailable, since nobody knows what was done, its stack is logged, and
// the volume is not locked for ever.

func TestPanicInWork(t *testing.T) {
	logs.reset()
	explode := true
	w := newWorld(t, withFaults(faultyMounter{format: func() error {
		if explode {
			panic("boom-in-work")
		}
		return nil
	}}))
	fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", "ext4", 64*mib), codes.Unavailable, "fault", "boom-in-work", "log")
	wantStack(t, "boom-in-work", "panic_test.go")
	explode = false
	w.create(t, "pvc-1", "ext4", 64*mib)
}

func TestPanicInAHandler(t *testing.T) {
	logs.reset()
	w := newWorld(t, withFaults(faultyMounter{mounts: func() error { panic("boom-in-handler") }}))
	id := w.create(t, "pvc-1", block, 64*mib)
	fails(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.dir}, codes.Unavailable, "boom-in-handler")
	wantStack(t, "boom-in-handler", "panic_test.go")
}

func TestPanicAfterTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs.reset()
		explode := true
		w := newWorld(t, withFaults(faultyMounter{format: func() error {
			if explode {
				time.Sleep(time.Minute)
				panic("boom-in-background")
			}
			return nil
		}}))
		_, err := within(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", "ext4", 64*mib), time.Second)
		wantCode(t, err, codes.DeadlineExceeded)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantStack(t, "boom-in-background", "panic_test.go")
		explode = false
		w.create(t, "pvc-1", "ext4", 64*mib)
	})
}

func TestPanicWhileStarting(t *testing.T) {
	logs.reset()
	w := newWorld(t, withFaults(faultyMounter{erase: func() error { panic("boom-in-start") }}))
	id := w.create(t, "pvc-1", block, 64*mib)
	if err := w.d.lvm.Retag(t.Context(), "vg0", "pvc-1", w.d.tags.state(deleting), ""); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	w.d.Start(t.Context())
	wantStack(t, "boom-in-start", "panic_test.go")
	if w.find(id) == nil {
		t.Error("it was removed")
	}
}

// wantStack checks that a panic was logged with the stack that leads to a file.
func wantStack(t *testing.T, panicked, file string) {
	t.Helper()
	text := logs.all()
	for _, word := range []string{panicked, file, "please report it with this stack"} {
		if !strings.Contains(text, word) {
			t.Errorf("the log has no %q", word)
		}
	}
}
