package driver

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// topolvm 1163: lvm processes outlived their RPC and piled up. On a dead disk each hangs in D state, where no signal reaches it: an
// hour of polls and retries must not add one each time.
func TestHungCommandsDoNotPileUp(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, w *world) error{
		"capacity": func(ctx context.Context, w *world) error {
			return callErr(ctx, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{})
		},
		"create": func(ctx context.Context, w *world) error {
			return callErr(ctx, w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*mib))
		},
		"delete": func(ctx context.Context, w *world) error {
			return callErr(ctx, w.d, (*Driver).DeleteVolume, deleteRequest("vg0/pvc-1:35971be6"))
		},
		"list": func(ctx context.Context, w *world) error {
			return callErr(ctx, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{})
		},
		"start": func(ctx context.Context, w *world) error { w.d.Start(ctx); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				hung := 0
				end := make(chan struct{})
				w.lvm.SetUnkillable(true)
				w.lvm.SetHook(func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
					mu.Lock()
					hung++
					mu.Unlock()
					<-end
					return run()
				})
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					_ = call(ctx, w)
					<-ctx.Done()
					cancel()
				}
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if hung > 3 {
					t.Errorf("%d commands hang after an hour", hung)
				}
				close(end)
			})
		})
	}
}
