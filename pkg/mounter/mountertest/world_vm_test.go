//go:build vm

package mountertest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/mounter/mountertest"
)

// These tests need root, LVM, udev and disk space in $TMPDIR: they are for a virtual machine.

const testVG = "mt-0"

// kernelWorld is a World of real LVs on a loop device.
type kernelWorld struct{ m *mounter.Linux }

func newKernelWorld(t *testing.T) mountertest.World {
	makeVG(t)
	// For the tools of another root, such as "chroot /srv/bullseye"; mounts must be seen there too.
	return kernelWorld{mounter.New(strings.Fields(os.Getenv("TEST_PREFIX")))}
}

func TestKernelContract(t *testing.T) { mountertest.Contract(t, newKernelWorld) }

var madeVG sync.Once

// makeVG makes the VG that all tests share, once.
func makeVG(t *testing.T) {
	t.Helper()
	madeVG.Do(func() {
		file := filepath.Join(os.TempDir(), testVG+".img")
		do(t, "truncate", "-s", "8G", file)
		loop := os.Getenv("TEST_LOOP") // a fixed one, where others use the machine too
		if loop == "" {
			loop = strings.TrimSpace(do(t, "losetup", "-f"))
		}
		do(t, "losetup", loop, file)
		do(t, "vgcreate", "-y", testVG, loop)
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	if out, err := exec.Command("pvs", "--noheadings", "-o", "pv_name", "-S", "vg_name="+testVG).Output(); err == nil {
		loop := strings.TrimSpace(string(out))
		_ = exec.Command("vgremove", "-f", testVG).Run()
		_ = exec.Command("losetup", "-d", loop).Run()
		_ = os.Remove(filepath.Join(os.TempDir(), testVG+".img"))
	}
	os.Exit(code)
}

func do(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func path(lv string) string { return "/dev/mapper/" + lvm.MapperName(testVG, lv) }

func (w kernelWorld) Mounter() mounter.Mounter { return w.m }
func (w kernelWorld) VG() string               { return testVG }

func (w kernelWorld) Create(t *testing.T, lv string, size int64) {
	t.Helper()
	do(t, "lvcreate", "-A", "n", "-y", "-W", "y", "-Z", "y", "-n", lv, "-L", sizeWord(size), testVG)
	t.Cleanup(func() { w.remove(t, lv) })
}

func sizeWord(n int64) string { return strconv.FormatInt(n, 10) + "b" }

func (w kernelWorld) remove(t *testing.T, lv string) {
	ctx := context.Background() // the test's own has ended
	if dev, err := w.m.Device(ctx, testVG, lv); err == nil {
		mounts, err := w.m.Mounts(ctx)
		ok(t, err)
		for _, m := range slices.Backward(mounts) {
			if m.DeviceID == dev.ID {
				if err := w.m.Unmount(ctx, m.Path); !errors.Is(err, mounter.ErrNotMounted) { // it may have gone with a peer
					ok(t, err)
				}
			}
		}
	}
	do(t, "lvremove", "-A", "n", "-f", testVG+"/"+lv)
}

func (w kernelWorld) Extend(t *testing.T, lv string, size int64) {
	t.Helper()
	do(t, "lvextend", "-A", "n", "-y", "-L", sizeWord(size), testVG+"/"+lv)
}

func (w kernelWorld) Deactivate(t *testing.T, lv string) {
	t.Helper()
	do(t, "lvchange", "-A", "n", "-an", testVG+"/"+lv)
}

func (w kernelWorld) SetSuspended(t *testing.T, lv string, suspended bool) {
	t.Helper()
	if !suspended {
		do(t, "dmsetup", "resume", path(lv))
		return
	}
	do(t, "dmsetup", "suspend", path(lv))
	t.Cleanup(func() { _ = exec.Command("dmsetup", "resume", path(lv)).Run() })
}

// SetUnreadable puts device-mapper's error target in the place of the LV's own table, and back.
func (w kernelWorld) SetUnreadable(t *testing.T, lv string, unreadable bool) {
	t.Helper()
	if unreadable {
		do(t, "dmsetup", "wipe_table", path(lv))
	} else {
		do(t, "lvchange", "-A", "n", "--refresh", testVG+"/"+lv)
	}
}

// Sign writes what blkid takes for the signature; blkid without restrictions must agree.
func (w kernelWorld) Sign(t *testing.T, lv, signature string) {
	t.Helper()
	f, err := os.OpenFile(path(lv), os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	ok(t, err)
	switch signature {
	case "linux_raid_member": // version 0.90, at the last multiple of 64 KiB but one
		sb := make([]byte, 4096)
		for i, v := range []uint32{0xa92b4efc, 0, 90, 0, 0, 0x11111111, 0x12345678, 1, uint32(size>>10 - 64), 2, 2, 0, 0} {
			binary.LittleEndian.PutUint32(sb[4*i:], v)
		}
		_, err = f.WriteAt(sb, size&^0xffff-0x10000)
	case "dos":
		mbr := make([]byte, 512)
		copy(mbr[446:], []byte{0, 0, 2, 0, 0x83, 0, 10, 0, 0, 8, 0, 0, 0, 8, 0, 0})
		mbr[510], mbr[511] = 0x55, 0xaa
		_, err = f.WriteAt(mbr, 0)
	case "crypto_LUKS":
		header := make([]byte, 1024)
		copy(header, "LUKS\xba\xbe\x00\x01aes\x00")
		copy(header[40:], "xts-plain64\x00")
		copy(header[168:], "00000000-1111-2222-3333-444444444444")
		_, err = f.WriteAt(header, 0)
	case "swap":
		do(t, "mkswap", path(lv))
	}
	ok(t, err)
	ok(t, f.Sync())
	if out := do(t, "blkid", "-p", path(lv)); !strings.Contains(out, `TYPE="`+signature+`"`) {
		t.Fatalf("blkid sees %s", out)
	}
}

// Stain fills the device, and its page cache, which an open keeps.
func (w kernelWorld) Stain(t *testing.T, lv string) {
	t.Helper()
	f, err := os.OpenFile(path(lv), os.O_RDWR, 0)
	ok(t, err)
	size, err := f.Seek(0, io.SeekEnd)
	ok(t, err)
	old := bytes.Repeat([]byte("old!"), 1<<18)
	for at := int64(0); at < size; at += int64(len(old)) {
		_, err = f.WriteAt(old[:min(int64(len(old)), size-at)], at)
		ok(t, err)
	}
	ok(t, f.Sync())
	ok(t, f.Close())
	f, err = os.Open(path(lv))
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = io.Copy(io.Discard, f)
	ok(t, err)
}

// Stained reads the device through the page cache and past it.
func (w kernelWorld) Stained(t *testing.T, lv string) bool {
	t.Helper()
	for _, flags := range []int{os.O_RDONLY, os.O_RDONLY | unix.O_DIRECT} {
		f, err := os.OpenFile(path(lv), flags, 0)
		ok(t, err)
		defer f.Close()
		buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
		ok(t, err)
		for {
			n, err := f.Read(buf)
			if len(bytes.Trim(buf[:n], "\x00")) > 0 {
				return true
			}
			if err == io.EOF {
				break
			}
			ok(t, err)
		}
	}
	return false
}

func (w kernelWorld) Occupy(t *testing.T, path string) func() {
	t.Helper()
	f, err := os.Create(filepath.Join(path, "occupied"))
	ok(t, err)
	return func() { _ = f.Close() }
}
