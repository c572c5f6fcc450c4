//go:build vm

package node

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestDeleteTakesNothingAlong: an origin of a thick snapshot stays, with the snapshot.
func TestDeleteTakesNothingAlong(t *testing.T) {
	h := newHost(t, []int64{400 * mib})
	v := h.create(t, "pvc-origin", "ext4", 64*mib, nil)
	run(t, "lvcreate", "-qq", "-y", "-s", "-L", "16m", "-n", "by-hand", h.vg.Name+"/"+v.lv())
	wantCode(t, v.Delete(t.Context()), codes.FailedPrecondition, "snapshot", "lvs")
	lvs, err := h.vg.LVs("origin,lv_tags")
	if err != nil || len(lvs) != 2 || lvs["by-hand"]["origin"] != v.lv() {
		t.Errorf("left are %v (%v)", lvs, err)
	}
	if strings.Contains(lvs[v.lv()]["lv_tags"], "state=") {
		t.Errorf("a refused deletion changed the tags: %s", lvs[v.lv()]["lv_tags"])
	}
	run(t, "lvremove", "-qq", "-y", h.vg.Name+"/by-hand")
}

// TestDeleteInUse: what is mounted, or held open without a mount, is refused at once, and nothing has changed. (LVM itself tries for
// five seconds, holding the VG's lock.)
func TestDeleteInUse(t *testing.T) {
	h := newHost(t, []int64{400 * mib})
	for _, fs := range []string{"ext4", Block} {
		v := h.create(t, "pvc-use-"+fs, fs, 64*mib, nil)
		h.mount(t, v)
		refused := func(words ...string) time.Duration {
			t.Helper()
			start := time.Now()
			wantCode(t, v.Delete(t.Context()), codes.FailedPrecondition, words...)
			return time.Since(start)
		}
		refused(v.Staging()[:8], "unmount")
		if err := v.Unmount(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open("/dev/" + h.vg.Name + "/" + v.lv())
		if err != nil {
			t.Fatal(err)
		}
		took := refused("open", "fuser")
		start := time.Now()
		if _, err := Run("lvremove", "-A", "n", "-y", h.vg.Name+"/"+v.lv()); err == nil {
			t.Fatal("lvremove removed an open volume")
		}
		if by := time.Since(start); took > by*3/4 {
			t.Errorf("%s: refused after %s, where lvremove needs %s", fs, took, by)
		}
		file.Close()
		if lvs, err := h.vg.LVs("lv_tags"); err != nil || strings.Contains(lvs[v.lv()]["lv_tags"], "state=") {
			t.Errorf("a refused deletion changed the tags: %v %v", lvs, err)
		}
		if err := v.Delete(t.Context()); err != nil {
			t.Errorf("deleting when nobody has it: %v", err)
		}
	}
}

// TestMetadataFull: a VG whose metadata area is full grants nothing and still deletes.
func TestMetadataFull(t *testing.T) {
	small, err := NewVG(t.TempDir(), "smallmda", []int64{300 * mib}, "--metadatasize", "64k", "--dataalignment", "64k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := small.Remove(); err != nil {
			t.Error(err)
		}
	})
	h := newHost(t, []int64{100 * mib})
	class := map[string]string{"volumeGroup": small.Name}
	v := h.create(t, "pvc-first", "ext4", 16*mib, class)
	fillMetadata(t, small.Name+"/"+v.lv())
	resp, err := h.Create(t.Context(), "pvc-second", "ext4", 16*mib, class)
	wantCode(t, err, codes.ResourceExhausted, "metadata")
	if resp != nil {
		t.Error("a volume came of it")
	}
	if err := v.Delete(t.Context()); err != nil {
		t.Errorf("deleting from a VG with full metadata: %v", err)
	}
}

// fillMetadata fills the metadata area of an LV's VG to the last byte, with tags: as many long ones as fit, then shorter ones.
func fillMetadata(t *testing.T, lv string) {
	t.Helper()
	n := 0
	for size := 1000; size >= 4; size /= 3 {
		for count := 64; count > 0; {
			words := []string{"lvchange", "-qq", "-A", "n"}
			for i := range count {
				words = append(words, "--addtag", fmt.Sprintf("%0*d", size, n+i))
			}
			if _, err := Run(append(words, lv)...); err != nil {
				count /= 2
				continue
			}
			n += count
		}
	}
	if free := run(t, "lvs", "--noheadings", "-o", "vg_mda_free", "--units", "b", lv); strings.TrimSpace(free) != "0B" {
		t.Fatalf("the metadata area is not full: %s free", free)
	}
}

// TestErase: a tenant's bytes are not in the volume that gets its extents next.
func TestErase(t *testing.T) {
	for _, erase := range []string{"zero", "discard"} {
		t.Run(erase, func(t *testing.T) {
			h := newHost(t, []int64{100 * mib})
			size := h.available(t)
			class := map[string]string{"erase": erase}
			v := h.create(t, "pvc-old", Block, size, class)
			h.mount(t, v)
			if err := fill(v.Target(), 'S'); err != nil {
				t.Fatal(err)
			}
			wantCode(t, v.Delete(t.Context()), codes.FailedPrecondition, "unmount")
			if got := readBlock(t, v.Target(), 4); got != "SSSS" {
				t.Errorf("a refused deletion wrote: %q", got)
			}
			if err := v.Unmount(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := v.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := h.create(t, "pvc-new", Block, size, class)
			h.mount(t, next)
			if n := countByte(t, next.Target(), 'S'); n > 0 {
				t.Errorf("%d bytes of the tenant before are in the new volume", n)
			}
		})
	}
}

// TestEraseInterrupted: a driver that is killed while it erases goes on by itself after its next start, and at the retry.
func TestEraseInterrupted(t *testing.T) {
	dir := t.TempDir()
	vg, err := NewSlowVG(dir, vgName(t), 600*mib, 300)
	if err != nil {
		t.Fatal(err)
	}
	h := newHostOn(t, dir, vg)
	v := h.create(t, "pvc-big", Block, 512*mib, nil)
	deleted := make(chan error, 1)
	go func() { deleted <- v.Delete(t.Context()) }()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		lvs, err := h.vg.LVs("lv_tags")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(lvs[v.lv()]["lv_tags"], "state=deleting") {
			break
		}
		if len(lvs) == 0 || time.Now().After(deadline) {
			t.Fatal("the volume went without being seen as deleting; make it larger")
		}
	}
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err == nil {
		t.Fatal("the deletion had ended before the driver was killed; make the volume larger")
	}
	if err := h.Start(""); err != nil {
		t.Fatal(err)
	}
	v = h.Volume(v.ID, "pvc-big", Block, v.Size)
	// It is refused as being deleted until the deletion goes on by itself, and then as busy.
	for err := v.Stage(t.Context()); status.Code(err) != codes.Aborted; err = v.Stage(t.Context()) {
		if status.Code(err) != codes.FailedPrecondition || time.Now().After(deadline) {
			t.Fatalf("staged while it is being deleted: %v", err)
		}
		time.Sleep(500 * time.Millisecond) // each has the volume for a while
	}
	for {
		lvs, err := h.vg.LVs("lv_tags")
		if err != nil {
			t.Fatal(err)
		}
		if len(lvs) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there after three minutes: %v", lvs)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := again(func() error { return v.Delete(t.Context()) }); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}
