//go:build vm

package node

import (
	"fmt"
	"sync"
	"testing"
)

// TestMany makes 50 volumes at once while others of the same VG are deleted and expanded: all succeed, nothing is left over, and
// (newHost's last look) every device maps its own extents only.
func TestMany(t *testing.T) {
	h := newHost(t, []int64{1500 * mib, 1500 * mib, 700 * mib})
	before := h.available(t)
	var doomed, growing []*Volume
	kept := map[string]string{"erase": "none"} // erasing has tests of its own
	for i := range 8 {
		doomed = append(doomed, h.create(t, fmt.Sprintf("pvc-doomed-%d", i), Block, 16*mib, kept))
		v := h.create(t, fmt.Sprintf("pvc-growing-%d", i), "ext4", 16*mib, kept)
		h.mount(t, v)
		growing = append(growing, v)
	}
	var all sync.WaitGroup
	failed := make(chan error, 100)
	start := make(chan struct{})
	at := func(what string, do func() error) {
		all.Go(func() {
			<-start
			if err := do(); err != nil {
				failed <- fmt.Errorf("%s: %w", what, err)
			}
			t.Logf("%s done", what)
		})
	}
	for i := range 50 {
		fs := []string{"ext4", Block}[i%2]
		at("create", func() error {
			_, err := h.Create(t.Context(), fmt.Sprintf("pvc-many-%d", i), fs, 20*mib, kept)
			return err
		})
	}
	for i := range 8 {
		at("delete", func() error { return doomed[i].Delete(t.Context()) })
		at("expand", func() error { return growing[i].Expand(t.Context(), 32*mib) })
	}
	close(start)
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	lvs, err := h.vg.LVs("lv_size,lv_tags")
	if err != nil || len(lvs) != 58 {
		t.Errorf("%d LVs (%v), want 58", len(lvs), err)
	}
	if err := h.vg.CheckTables(); err != nil {
		t.Error(err)
	}
	if err := h.Clear(t.Context()); err != nil {
		t.Error(err)
	}
	if got := h.available(t); got != before {
		t.Errorf("%d bytes available in the end, %d in the beginning", got, before)
	}
}
