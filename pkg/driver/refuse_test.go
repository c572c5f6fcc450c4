package driver

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

func paced(w *world) { w.refusalPause = refusalPause }

// refusedAfter asks for n volumes that do not fit, all at once, and returns when each was refused, in order.
func (w *world) refusedAfter(ctx context.Context, t *testing.T, n int, vg string) []time.Duration {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var after []time.Duration
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := vg + string(rune('a'+i))
			_, err := rpc(ctx, w.d, (*Driver).CreateVolume, createRequest(name, block, 64*gib, "volumeGroup", vg))
			wantCode(t, err, codes.ResourceExhausted, "free")
			mu.Lock()
			defer mu.Unlock()
			after = append(after, time.Since(began))
		})
	}
	wg.Wait()
	slices.Sort(after)
	return after
}

// The first of a burst is sent on at once, the others one by one: then they do not all go to the same node next.
func TestRefusalsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, paced, withVG("vg1", lvmtest.VGOptions{}))
		for range 2 {
			for i, got := range w.refusedAfter(t.Context(), t, 5, "vg0") {
				if want := time.Duration(i) * refusalPause; got != want {
					t.Errorf("refusal %d after %s, want %s", i, got, want)
				}
			}
			time.Sleep(refusalPause)
		}
		// Each VG has its own turns, and a success waits for none.
		w.refusedAfter(t.Context(), t, 1, "vg0")
		if got := w.refusedAfter(t.Context(), t, 1, "vg1"); got[0] != 0 {
			t.Errorf("another volume group's refusal took %s", got[0])
		}
		began := time.Now()
		w.create(t, "pvc-1", block, gib)
		fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 2*gib), codes.AlreadyExists)
		if took := time.Since(began); took != 0 {
			t.Errorf("what is no refusal took %s", took)
		}
	})
}

// Whoever waits for a turn when the caller is about to give up, or when the driver stops, gets the answer at once: nothing is
// left behind, and a refusal that nobody hears has the provisioner ask this node again.
func TestRefusalBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, paced)
		ctx, cancel := context.WithTimeout(t.Context(), beforeDeadline+refusalPause+refusalPause/2)
		defer cancel()
		got := w.refusedAfter(ctx, t, 4, "vg0")
		want := []time.Duration{0, refusalPause, refusalPause * 3 / 2, refusalPause * 3 / 2}
		if !slices.Equal(got, want) {
			t.Errorf("refused after %v, want %v", got, want)
		}
		// Those who left did not use up turns.
		time.Sleep(refusalPause)
		if got := w.refusedAfter(t.Context(), t, 2, "vg0"); got[0] != 0 || got[1] != refusalPause {
			t.Errorf("the next are refused after %v", got)
		}
		time.AfterFunc(refusalPause/2, func() { w.d.end() })
		if got := w.refusedAfter(t.Context(), t, 3, "vg0"); got[2] > refusalPause {
			t.Errorf("the stopping driver refuses after %v", got)
		}
	})
}

// A refused volume is no longer under way: the same call made again is not Aborted.
func TestRefusalHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, paced)
		w.refusedAfter(t.Context(), t, 1, "vg0")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = callErr(ctx, w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*gib)) }()
		synctest.Wait()
		cancel()
		fails(t, w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*gib), codes.ResourceExhausted)
		w.create(t, "pvc-1", block, gib)
	})
}
