package driver

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// pmem-csi 336, 316, 332: LVM commands at the same time failed. Fifty volumes are made at once, live, and go; each call succeeds, no
// two LVs ever share an extent, and no two changes of a VG run at once (Fake.Check, at the end of each world).
func TestManyVolumesAtOnce(t *testing.T) {
	w := newWorld(t, withVG("vg1", lvmtest.VGOptions{PVs: []int64{4 * gib, 4 * gib}}), withVG("vg0", lvmtest.VGOptions{PVs: []int64{4 * gib, 4 * gib}}))
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			if err := w.liveOnce(t.Context(), n); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, vg := range w.vgs {
		if got := w.names(vg); len(got) != 0 {
			t.Errorf("left in %s: %q", vg, got)
		}
	}
	if mounts, err := w.mounter.Mounts(t.Context()); err != nil || len(mounts) != 0 {
		t.Errorf("left mounted: %v, %v", mounts, err)
	}
}

// liveOnce is the life of volume n: made, mounted, expanded, unmounted, deleted, each call made twice.
func (w *world) liveOnce(ctx context.Context, n int) error {
	fs, vg := []string{block, "ext4"}[n%2], []string{"vg0", "vg1"}[n/2%2]
	erase := []string{"zero", "none", "discard"}[n%3]
	id := fmt.Sprintf("%s/pvc-%d:35971be6", vg, n)
	target := fmt.Sprint("target-", n)
	for _, step := range []func() error{
		func() error {
			return callErr(ctx, w.d, (*Driver).CreateVolume, createRequest(fmt.Sprint("pvc-", n), fs, 32*mib, "volumeGroup", vg, "erase", erase))
		},
		func() error { return callErr(ctx, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, fs)) },
		func() error { return callErr(ctx, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, fs, target)) },
		func() error {
			return callErr(ctx, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target(target), 64*mib))
		},
		func() error {
			err := callErr(ctx, w.d, (*Driver).DeleteVolume, deleteRequest(id))
			if status.Code(err) != codes.FailedPrecondition {
				return fmt.Errorf("deleting %s while it is published: %w", id, err)
			}
			return nil
		},
		func() error {
			return callErr(ctx, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(id, w.target(target)))
		},
		func() error { return callErr(ctx, w.d, (*Driver).NodeUnstageVolume, unstageRequest(id, w.staging(id))) },
		func() error { return callErr(ctx, w.d, (*Driver).DeleteVolume, deleteRequest(id)) },
	} {
		for range 2 {
			if err := step(); err != nil {
				return fmt.Errorf("volume %d: %w", n, err)
			}
		}
	}
	return nil
}

// callErr calls a method for its error alone.
func callErr[Q, R any](ctx context.Context, d *Driver, method func(*Driver, context.Context, Q) (R, error), req Q) error {
	_, err := rpc(ctx, d, method, req)
	return err
}

// kubelet, the provisioner and their retries all come for one volume: every call is answered by success or Aborted, and the
// end is as if one had come.
func TestManyCallsForOneVolume(t *testing.T) {
	w := newWorld(t)
	for _, fs := range []string{block, "ext4"} {
		id := "vg0/pvc-1:35971be6"
		all := func(call func() error) {
			t.Helper()
			var wg sync.WaitGroup
			var mu sync.Mutex
			succeeded := 0
			for range 20 {
				wg.Go(func() {
					err := call()
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						succeeded++
					} else if status.Code(err) != codes.Aborted {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if succeeded == 0 {
				t.Error("none of 20 calls succeeded")
			}
		}
		ctx := t.Context()
		all(func() error { return callErr(ctx, w.d, (*Driver).CreateVolume, createRequest("pvc-1", fs, 32*mib)) })
		all(func() error { return callErr(ctx, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, fs)) })
		all(func() error { return callErr(ctx, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, fs, "a")) })
		all(func() error {
			return callErr(ctx, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 64*mib))
		})
		want := 1
		if fs != block {
			want = 2 // staged and published
		}
		if got := w.mountsOf(t, id); len(got) != want || w.find(id).Size != 64*mib {
			t.Errorf("fs %s: %d bytes, mounts %+v", fs, w.find(id).Size, got)
		}
		all(func() error {
			return callErr(ctx, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(id, w.target("a")))
		})
		all(func() error { return callErr(ctx, w.d, (*Driver).NodeUnstageVolume, unstageRequest(id, w.staging(id))) })
		all(func() error { return callErr(ctx, w.d, (*Driver).DeleteVolume, deleteRequest(id)) })
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	}
}
