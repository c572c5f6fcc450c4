package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

func (w *world) ready(t *testing.T) bool {
	t.Helper()
	return must(t, w.d, (*Driver).Probe, &csi.ProbeRequest{}).GetReady().GetValue()
}

// Broken LVM means not ready and still serving: unmounts must go on.
func TestNotReadyUntilLVMAnswers(t *testing.T) {
	for name, hook := range map[string]lvmtest.Hook{
		"it fails":             answer(5, "Error reading device /dev/sda at 0 length 512."),
		"it cannot be started": refused,
		"it hangs":             hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", "ext4", 64*mib)
				w.publish(t, id, "ext4", "a")
				w.restart(t)
				w.lvm.SetHook(hook)
				ended := make(chan struct{})
				go func() { w.d.Start(t.Context()); close(ended) }()
				time.Sleep(2 * time.Minute)
				if w.ready(t) {
					t.Error("ready without LVM")
				}
				w.unpublish(t, id, "a")
				w.unstage(t, id)
				w.lvm.SetHook(nil)
				<-ended
				if !w.ready(t) {
					t.Error("not ready with LVM")
				}
			})
		})
	}
}

func TestReadyWithoutTheDefaultVG(t *testing.T) {
	for name, vg := range map[string]string{"absent": "vg9", "none named": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withConfig(func(c *Config) { c.DefaultVG = vg }))
			if w.ready(t) {
				t.Error("ready before the start")
			}
			w.d.Start(t.Context())
			if !w.ready(t) {
				t.Error("not ready")
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lvm.SetHook(refused)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.d.Start(ctx)
		if ctx.Err() == nil || w.ready(t) {
			t.Error("it gave up, or is ready")
		}
	})
}

// A call that comes while Start looks must not be overruled by what Start saw before.
func TestStartDoesNotOverruleACall(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", block, 64*mib)
	w.restart(t)
	seen, err := w.d.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.delete(t, id)
	w.d.takeUp(t.Context(), seen)
	if w.d.known.uuid(id) != "" {
		t.Error("a deleted volume counts as known")
	}
	fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, block), codes.NotFound)
}

// Close waits for an lvm command, within bounds.
func TestCloseWaitsForCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.warm(t)
		took := 30 * time.Second
		w.lvm.SetHook(onCommand("lvcreate", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			time.Sleep(took)
			return run()
		}))
		go func() { _, _ = rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*mib)) }()
		synctest.Wait()
		began := time.Now()
		if !w.d.Close() || time.Since(began) != 30*time.Second {
			t.Errorf("it waited %s for 30 s of work", time.Since(began))
		}
		w.d = w.newDriver()
		took = 10 * time.Minute
		go func() { _, _ = rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-2", block, 64*mib)) }()
		synctest.Wait()
		began = time.Now()
		if w.d.Close() || time.Since(began) != stopGrace {
			t.Errorf("it waited %s for what hangs", time.Since(began))
		}
		time.Sleep(took)
		w.d = w.newDriver()
	})
}
