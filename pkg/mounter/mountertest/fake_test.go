package mountertest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/mounter/mountertest"
)

// fakeWorld is a World of fakes.
type fakeWorld struct {
	*mountertest.Fake
	lvm *lvmtest.Fake
}

func newWorld(*testing.T) mountertest.World {
	l := lvmtest.New()
	l.AddVG("vg-0", lvmtest.VGOptions{PVs: []int64{8 << 30}})
	return fakeWorld{mountertest.New(l), l}
}

func (w fakeWorld) Mounter() mounter.Mounter { return w.Fake }
func (w fakeWorld) VG() string               { return "vg-0" }
func (w fakeWorld) Create(_ *testing.T, lv string, size int64) {
	w.lvm.AddForeignLV("vg-0", lv, size)
}
func (w fakeWorld) Extend(t *testing.T, lv string, size int64) {
	extend(t, w.lvm, lv, size)
}
func (w fakeWorld) Deactivate(_ *testing.T, lv string) { w.lvm.Deactivate("vg-0", lv) }
func (w fakeWorld) SetSuspended(_ *testing.T, lv string, suspended bool) {
	w.lvm.SetSuspended("vg-0", lv, suspended)
}
func (w fakeWorld) SetUnreadable(_ *testing.T, lv string, unreadable bool) {
	w.Fake.SetUnreadable("vg-0", lv, unreadable)
}
func (w fakeWorld) Sign(_ *testing.T, lv, signature string) { w.lvm.SetContents("vg-0", lv, signature) }
func (w fakeWorld) Stain(_ *testing.T, lv string)           { w.lvm.Stain("vg-0", lv, "old") }
func (w fakeWorld) Stained(_ *testing.T, lv string) bool    { return len(w.lvm.Stains("vg-0", lv)) > 0 }
func (w fakeWorld) Occupy(_ *testing.T, path string) func() {
	w.SetBusy(path, true)
	return func() { w.SetBusy(path, false) }
}

func TestContract(t *testing.T) { mountertest.Contract(t, newWorld) }

func newFake(t *testing.T) (*mountertest.Fake, *lvmtest.Fake, mounter.Device, string) {
	t.Helper()
	l := lvmtest.New()
	l.AddVG("vg-0", lvmtest.VGOptions{})
	l.AddForeignLV("vg-0", "a", 16<<20)
	f := mountertest.New(l)
	dev, err := f.Device(t.Context(), "vg-0", "a")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return f, l, dev, dir
}

func TestReboot(t *testing.T) {
	f, l, dev, dir := newFake(t)
	if err := errors.Join(f.Format(t.Context(), dev, "ext4", []string{"-i", "65536"}),
		f.Mount(t.Context(), dev, "ext4", dir, []string{"noatime"})); err != nil {
		t.Fatal(err)
	}
	if d, _ := l.Device("vg-0", "a"); d.Opens != 1 {
		t.Errorf("LVM sees %d opens of a mounted LV", d.Opens)
	}
	if got := f.MountOptions(dir); len(got) != 1 || got[0] != "noatime" {
		t.Errorf("mount options are %q", got)
	}
	f.Reboot()
	if mounts, err := f.Mounts(t.Context()); err != nil || len(mounts) != 0 {
		t.Errorf("mounts after a reboot: %v, %v", mounts, err)
	}
	if _, err := f.Device(t.Context(), "vg-0", "a"); !errors.Is(err, mounter.ErrInactive) {
		t.Errorf("after a reboot Device says %v", err)
	}
	activate(t, l, "a")
	again, err := f.Device(t.Context(), "vg-0", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Mount(t.Context(), dev, "ext4", dir, nil); !errors.Is(err, mounter.ErrInactive) {
		t.Errorf("a device from before the reboot is mounted: %v", err)
	}
	if err := f.Mount(t.Context(), again, "ext4", dir, nil); err != nil {
		t.Error(err)
	}
	if got := f.MkfsOptions("vg-0", "a"); strings.Join(got, " ") != "-i 65536" {
		t.Errorf("mkfs options are %q", got)
	}
}

func TestBlock(t *testing.T) {
	f, l, dev, _ := newFake(t)
	l.Stain("vg-0", "a", "old")
	for _, method := range []string{"Format", "Erase"} {
		call := func(ctx context.Context) error {
			if method == "Format" {
				return f.Format(ctx, dev, "ext4", nil)
			}
			return f.Erase(ctx, dev, mounter.EraseZero)
		}
		entered, release := f.Block(method, "vg-0", "a")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", method, err)
		}
		<-entered
		release()

		entered, release = f.Block(method, "vg-0", "a")
		done := make(chan error)
		go func() { done <- call(t.Context()) }()
		<-entered
		if d, _ := l.Device("vg-0", "a"); d.Opens != 1 || len(l.Stains("vg-0", "a")) == 0 {
			t.Errorf("%s is blocked with %d opens and stains %v", method, d.Opens, l.Stains("vg-0", "a"))
		}
		if _, err := f.Claim(t.Context(), dev); !errors.Is(err, mounter.ErrInUse) {
			t.Errorf("claim during %s: %v", method, err)
		}
		release()
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestHungUsage(t *testing.T) {
	f, _, dev, dir := newFake(t)
	if err := errors.Join(f.Format(t.Context(), dev, "ext4", nil), f.Mount(t.Context(), dev, "ext4", dir, nil)); err != nil {
		t.Fatal(err)
	}
	f.SetHung(dir, true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := f.Usage(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestDamage(t *testing.T) {
	f, _, dev, _ := newFake(t)
	f.SetDamaged("vg-0", "a", true)
	if err := f.Check(t.Context(), dev, "ext4"); err == nil {
		t.Error("no error for damage")
	}
}

func TestConcurrentUse(t *testing.T) {
	f, _, dev, dir := newFake(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_ = f.Format(t.Context(), dev, "ext4", nil)
				_ = f.Mount(t.Context(), dev, "ext4", dir, nil)
				_, _ = f.Probe(t.Context(), dev)
				_, _ = f.Mounts(t.Context())
				_, _ = f.Usage(t.Context(), dir)
				_ = f.Unmount(t.Context(), dir)
				_ = f.Erase(t.Context(), dev, mounter.EraseZero)
			}
		})
	}
	wg.Wait()
}
func extend(t *testing.T, l *lvmtest.Fake, lv string, size int64) {
	t.Helper()
	if err := lvm.New(l).Extend(context.Background(), "vg-0", lv, size); err != nil {
		t.Fatal(err)
	}
}

func activate(t *testing.T, l *lvmtest.Fake, lv string) {
	t.Helper()
	if err := lvm.New(l).Activate(context.Background(), "vg-0", lv); err != nil {
		t.Fatal(err)
	}
}
