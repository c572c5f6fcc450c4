//go:build vm

package lvmtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// The contract on real LVM. It needs root, device-mapper, loop devices, lvm2, btrfs-progs and 300 MiB in
// $TMPDIR; it is meant for a virtual machine:
//
//	go test -c -tags vm ./pkg/lvm/lvmtest && ./lvmtest.test -test.v -test.run OnLVM

func TestContractOnLVM(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "lvmtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	_ = exec.Command("modprobe", "-a", "loop", "dm-snapshot", "btrfs").Run() // or they are there already
	// LVM sees the test's PVs only, and not the loop devices under them.
	conf := `devices { filter=["a|^/dev/mapper/ctpv|","r|.*|"] use_devicesfile=0 }` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "lvm.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LVM_SYSTEM_DIR", dir)
	t.Setenv("LVM_SUPPRESS_FD_WARNINGS", "1")
	Contract(t, func(t *testing.T) Env {
		e := &realEnv{dir: dir, pvs: map[string][]realPV{}}
		t.Cleanup(func() { e.tearDown(t) })
		return e
	})
}

// realEnv makes PVs of sparse files: a loop device over each file, and a device-mapper device over that, which can
// be taken away.
type realEnv struct {
	dir string
	pvs map[string][]realPV // by VG
}

type realPV struct{ file, loop, dm, table string }

var realPVs int

func (e *realEnv) Runner() lvm.Runner { return lvm.Process{} }

func (e *realEnv) VG(t *testing.T, name string, o VGOptions) {
	t.Helper()
	devices := []string{}
	for _, size := range o.PVs {
		realPVs++
		pv := realPV{file: filepath.Join(e.dir, fmt.Sprintf("pv%d", realPVs)), dm: fmt.Sprintf("ctpv%d", realPVs)}
		must(t, os.WriteFile(pv.file, nil, 0o600))
		must(t, os.Truncate(pv.file, size+2*mib)) // LVM aligns what it keeps before the extents to 1 MiB
		pv.loop = tool(t, "losetup", "--find", "--show", pv.file)
		pv.table = fmt.Sprintf("0 %s linear %s 0", tool(t, "blockdev", "--getsz", pv.loop), pv.loop)
		e.pvs[name] = append(e.pvs[name], pv)
		tool(t, "dmsetup", "create", pv.dm, "--table", pv.table)
		create := []string{"pvcreate", "-q", "/dev/mapper/" + pv.dm}
		if o.MetadataSize != 0 {
			create = append(create, "--metadatasize", fmt.Sprintf("%db", o.MetadataSize), "--dataalignment", "4k")
		}
		tool(t, create[0], create[1:]...)
		devices = append(devices, "/dev/mapper/"+pv.dm)
	}
	tool(t, "vgcreate", append([]string{"-q", name}, devices...)...)
	if o.Exported {
		tool(t, "vgexport", "-q", name)
	}
	if o.SystemID != "" {
		tool(t, "vgchange", "-q", "-y", "--systemid", o.SystemID, name)
	}
}

func (e *realEnv) Unplug(t *testing.T, vg string, n int) func() {
	t.Helper()
	pv := e.pvs[vg][n]
	settle(t)
	tool(t, "dmsetup", "remove", "--retry", pv.dm)
	return func() {
		t.Helper()
		tool(t, "dmsetup", "create", pv.dm, "--table", pv.table)
		settle(t)
	}
}

func (e *realEnv) ForeignLV(t *testing.T, vg, name string, size int64) {
	t.Helper()
	tool(t, "lvcreate", "-q", "-y", "-n", name, "-L", fmt.Sprintf("%db", size), vg)
}

func (e *realEnv) Snapshot(t *testing.T, vg, origin, name string) {
	t.Helper()
	tool(t, "lvcreate", "-q", "-y", "-s", "-n", name, "-l", "1", vg+"/"+origin)
}

func (e *realEnv) Deactivate(t *testing.T, vg, lv string) {
	t.Helper()
	settle(t)
	tool(t, "lvchange", "-q", "-y", "-a", "n", vg+"/"+lv)
}

func (e *realEnv) Open(t *testing.T, vg, lv string) func() {
	t.Helper()
	f, err := os.Open(device(vg, lv))
	must(t, err)
	return sync.OnceFunc(func() { _ = f.Close() })
}

func (e *realEnv) LoadTable(t *testing.T, vg, lv string) {
	t.Helper()
	sectors := tool(t, "blockdev", "--getsz", device(vg, lv))
	settle(t)
	tool(t, "dmsetup", "load", lvm.MapperName(vg, lv), "--table", "0 "+sectors+" error")
}

func (e *realEnv) Strand(t *testing.T, vg, lv string) {
	t.Helper()
	e.LoadTable(t, vg, lv)
	// Resuming would make the table live, so suspend after loading it, as lvm does.
	tool(t, "dmsetup", "suspend", lvm.MapperName(vg, lv))
}

// Lock takes the lock file of a VG as lvm does (lib/locking/file_locking.c of LVM 2.03).
func (e *realEnv) Lock(t *testing.T, vg string) func() {
	t.Helper()
	must(t, os.MkdirAll("/run/lock/lvm", 0o700))
	f, err := os.OpenFile("/run/lock/lvm/V_"+vg, os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return sync.OnceFunc(func() { _ = f.Close() })
}

func (e *realEnv) Format(t *testing.T, vg, lv string) {
	t.Helper()
	tool(t, "mkfs.btrfs", "-q", "-f", device(vg, lv))
}

func (e *realEnv) Signature(t *testing.T, vg, lv string) string {
	t.Helper()
	out, err := exec.Command("blkid", "-p", "-o", "value", "-s", "TYPE", device(vg, lv)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return ""
	}
	must(t, err)
	return strings.TrimSpace(string(out))
}

// where Write writes: not where lvcreate zeroes.
const offset = 1 << 20

func (e *realEnv) Write(t *testing.T, vg, lv, word string) {
	t.Helper()
	f, err := os.OpenFile(device(vg, lv), os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	_, err = f.WriteAt(append([]byte(word), make([]byte, 4096-len(word))...), offset)
	must(t, errors.Join(err, f.Close()))
}

func (e *realEnv) Read(t *testing.T, vg, lv string) (string, error) {
	t.Helper()
	type answer struct {
		word string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		word, err := readDirect(device(vg, lv))
		done <- answer{word, err}
	}()
	select {
	case a := <-done:
		return a.word, a.err
	case <-time.After(20 * time.Second):
		return "", errors.New("the read hangs")
	}
}

// readDirect reads past the page cache.
func readDirect(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return "", err
	}
	defer func() { _ = syscall.Munmap(page) }()
	if _, err := f.ReadAt(page, offset); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(page, "\x00")), nil
}

// tearDown takes everything away below lvm, whatever state a failed case left.
func (e *realEnv) tearDown(t *testing.T) {
	for vg, pvs := range e.pvs {
		for range 5 { // a device goes only after those that use it
			left := dmDevices(t, lvm.MapperName(vg, ""))
			for _, name := range left {
				_ = exec.Command("dmsetup", "clear", name).Run()
				_ = exec.Command("dmsetup", "resume", name).Run()
				_ = exec.Command("dmsetup", "remove", "--retry", name).Run()
			}
			if len(left) == 0 {
				break
			}
		}
		settle(t)
		for _, pv := range pvs {
			_ = exec.Command("dmsetup", "remove", "--retry", pv.dm).Run()
			_ = exec.Command("losetup", "-d", pv.loop).Run()
			_ = os.Remove(pv.file)
		}
	}
}

func dmDevices(t *testing.T, prefix string) []string {
	t.Helper()
	var names []string
	for name := range strings.FieldsSeq(tool(t, "dmsetup", "info", "-c", "--noheadings", "-o", "name")) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// settle waits until udev has looked at the devices, which it opens for that.
func settle(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/run/udev/control"); err == nil {
		tool(t, "udevadm", "settle")
	}
}

func device(vg, lv string) string { return "/dev/mapper/" + lvm.MapperName(vg, lv) }

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
