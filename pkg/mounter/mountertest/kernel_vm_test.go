//go:build vm

package mountertest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// What the contract leaves out, because a fake could only repeat what it was told of the kernel.

func setUp(t *testing.T, lv string, size int64) (kernelWorld, mounter.Device) {
	t.Helper()
	t.TempDir() // removed after the mounts are gone
	w := newKernelWorld(t).(kernelWorld)
	w.Create(t, lv, size)
	return w, find(t, w, lv)
}

func find(t *testing.T, w kernelWorld, lv string) mounter.Device {
	t.Helper()
	dev, err := w.m.Device(t.Context(), testVG, lv)
	ok(t, err)
	return dev
}

func isErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

func TestReadOnlyBinds(t *testing.T) {
	w, dev := setUp(t, "a", 32<<20)
	ok(t, w.m.Format(t.Context(), dev, "ext4", nil))
	source, rw, ro := t.TempDir(), t.TempDir(), t.TempDir()
	ok(t, w.m.Mount(t.Context(), dev, "ext4", source, []string{"nosuid", "noexec", "noatime"}))
	ok(t, w.m.Bind(t.Context(), source, rw, false))
	ok(t, w.m.Bind(t.Context(), source, ro, true))
	ok(t, os.WriteFile(filepath.Join(rw, "file"), []byte("x"), 0o600))
	if data, err := os.ReadFile(filepath.Join(ro, "file")); err != nil || string(data) != "x" {
		t.Errorf("read %q, %v", data, err)
	}
	isErr(t, os.WriteFile(filepath.Join(ro, "file"), nil, 0o600), unix.EROFS)
	for _, dir := range []string{rw, ro} {
		var st unix.Statfs_t
		ok(t, unix.Statfs(dir, &st))
		const flags, noatime = unix.MS_NOSUID | unix.MS_NOEXEC, 0x400
		if st.Flags&flags != flags || st.Flags&noatime == 0 {
			t.Errorf("the bind lost flags of its source: %#x", st.Flags)
		}
	}
	ok(t, os.WriteFile(filepath.Join(source, "file"), []byte("y"), 0o600))
}

func TestWriteProtectedVolume(t *testing.T) {
	w, dev := setUp(t, "a", 32<<20)
	ok(t, w.m.Format(t.Context(), dev, "ext4", nil))
	do(t, "lvchange", "-pr", testVG+"/a")
	dir := t.TempDir()
	if err := w.m.Mount(t.Context(), dev, "ext4", dir, nil); err == nil {
		t.Error("mounted read-only though it was not asked for")
	}
	ok(t, w.m.Mount(t.Context(), dev, "ext4", dir, []string{"ro"}))
}

func TestSELinuxContext(t *testing.T) {
	w, dev := setUp(t, "a", 32<<20)
	ok(t, w.m.Format(t.Context(), dev, "ext4", nil))
	// Where SELinux is off, mount(8) drops the option; split at its comma it would leave "c2", which ext4 refuses.
	ok(t, w.m.Mount(t.Context(), dev, "ext4", t.TempDir(), []string{`context="system_u:object_r:container_file_t:s0:c1,c2"`, "noatime"}))
}

func TestDamagedExt4(t *testing.T) {
	w, dev := setUp(t, "a", 32<<20)
	ok(t, w.m.Format(t.Context(), dev, "ext4", nil))
	do(t, "debugfs", "-w", "-R", "clri <2>", dev.Path)
	do(t, "debugfs", "-w", "-R", "set_super_value state 2", dev.Path) // "has errors"
	err := w.m.Check(t.Context(), dev, "ext4")
	if err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("error is %v", err)
	}
}

func TestJournalReplay(t *testing.T) {
	w, dev := setUp(t, "a", 320<<20)
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		ok(t, w.m.Format(t.Context(), dev, fsType, nil))
		dir := t.TempDir()
		ok(t, w.m.Mount(t.Context(), dev, fsType, dir, nil))
		f, err := os.Create(filepath.Join(dir, "file"))
		ok(t, err)
		_, err = f.WriteString("data")
		ok(t, errors.Join(err, f.Sync(), f.Close()))
		// A power cut: the device fails under the mount, which cannot write its end.
		w.SetUnreadable(t, "a", true)
		ok(t, w.m.Unmount(t.Context(), dir))
		w.SetUnreadable(t, "a", false)
		ok(t, w.m.Check(t.Context(), dev, fsType))
		ok(t, w.m.Mount(t.Context(), dev, fsType, dir, nil))
		if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(data) != "data" {
			t.Errorf("%s: read %q, %v", fsType, data, err)
		}
		ok(t, w.m.Unmount(t.Context(), dir))
	}
}

func TestNodeLagsDevice(t *testing.T) {
	w, dev := setUp(t, "a", 8<<20)
	target, err := os.Readlink(dev.Path)
	ok(t, err)
	ok(t, os.Remove(dev.Path))
	go func() {
		time.Sleep(300 * time.Millisecond)
		_ = os.Symlink(target, dev.Path)
	}()
	if again := find(t, w, "a"); again != dev {
		t.Errorf("got %+v, want %+v", again, dev)
	}
}

func TestClaimIsTriedAgain(t *testing.T) {
	w, dev := setUp(t, "a", 8<<20)
	claim, err := w.m.Claim(t.Context(), dev)
	ok(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = claim.Close() })
	claim, err = w.m.Claim(t.Context(), dev)
	ok(t, err)
	ok(t, claim.Close())
}

// A claim must not make udev open the device: lvremove right after it would find it open.
func TestClaimWakesNobody(t *testing.T) {
	w, dev := setUp(t, "a", 8<<20)
	do(t, "udevadm", "settle")
	events := exec.Command("udevadm", "monitor", "--kernel", "--subsystem-match=block")
	var out strings.Builder
	events.Stdout = &out
	ok(t, events.Start())
	time.Sleep(time.Second)
	claim, err := w.m.Claim(t.Context(), dev)
	ok(t, err)
	ok(t, claim.Close())
	time.Sleep(time.Second)
	ok(t, events.Process.Signal(os.Interrupt))
	_ = events.Wait()
	if strings.Contains(out.String(), "/block/dm-") {
		t.Errorf("udev saw\n%s", out.String())
	}
}

// A RAM disk has no command that writes zeroes, and no discard that promises any.
func TestEraseWithoutOffload(t *testing.T) {
	if out, err := exec.Command("modprobe", "brd", "rd_nr=1", "rd_size=163840").CombinedOutput(); err != nil {
		t.Skipf("no RAM disk: %s", out)
	}
	w, _ := setUp(t, "a", 8<<20)
	do(t, "vgextend", "-y", testVG, "/dev/ram0")
	t.Cleanup(func() { do(t, "vgreduce", testVG, "/dev/ram0"); do(t, "pvremove", "/dev/ram0") })
	do(t, "lvcreate", "-y", "-L", "140m", "-n", "ram", testVG, "/dev/ram0")
	t.Cleanup(func() { w.remove(t, "ram") })
	dev := find(t, w, "ram")
	for _, how := range []mounter.Erase{mounter.EraseZero, mounter.EraseDiscard} {
		w.Stain(t, "ram")
		ok(t, w.m.Erase(t.Context(), dev, how))
		if w.Stained(t, "ram") {
			t.Errorf("not all is zero after %s", how)
		}
	}
}
