//go:build vm

package node

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These tests run as root in the VM (make vm); the driver is the real binary.
var binary = flag.String("driver", "./lvm-csi", "the driver's `binary`")

const mib = 1 << 20

// host is a VG and a driver over it, with a folder on the VM's disk.
type host struct {
	*Driver
	vg  *VG
	dir string
}

// newHost makes a VG of the given PVs and starts a driver whose default VG it is.
func newHost(t *testing.T, pvs []int64, args ...string) *host {
	t.Helper()
	dir := t.TempDir()
	vg, err := NewVG(dir, vgName(t), pvs)
	if err != nil {
		t.Fatal(err)
	}
	return newHostOn(t, dir, vg, args...)
}

func vgName(t *testing.T) string {
	return "vg" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))[len("test"):]
}

// newHostOn starts a driver on a VG. In the end nothing may be left in it.
func newHostOn(t *testing.T, dir string, vg *VG, args ...string) *host {
	t.Helper()
	h := &host{vg: vg, dir: dir}
	var err error
	h.Driver, err = StartDriver(*binary, dir, "", testLog{t}, append([]string{"--default-volume-group", vg.Name, "-v", "2"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Clear(context.Background()); err != nil {
			t.Errorf("clearing up: %v", err)
		}
		if err := vg.CheckTables(); err != nil {
			t.Error(err)
		}
		if lvs, err := vg.LVs("lv_tags"); err != nil || len(lvs) > 0 {
			t.Errorf("left over: %v %v", lvs, err)
		}
		if err := h.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if err := vg.Remove(); err != nil {
			t.Errorf("removing the VG: %v", err)
		}
	})
	return h
}

// testLog is the driver's log among the test's.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if testing.Verbose() {
		return os.Stdout.Write(p)
	}
	return len(p), nil
}

func (h *host) create(t *testing.T, name, fs string, size int64, parameters map[string]string) *Volume {
	t.Helper()
	v, err := h.Create(t.Context(), name, fs, size, parameters)
	if err != nil {
		t.Fatalf("CreateVolume %s: %v", name, err)
	}
	return v
}

func (h *host) mount(t *testing.T, v *Volume) {
	t.Helper()
	if err := v.Mount(t.Context()); err != nil {
		t.Fatalf("mounting %s: %v", v.ID, err)
	}
}

// available is what GetCapacity says of the default VG.
func (h *host) available(t *testing.T) int64 {
	t.Helper()
	resp, err := h.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetAvailableCapacity() != resp.GetMaximumVolumeSize().GetValue() {
		t.Errorf("linear: available %d and maximum %d differ", resp.GetAvailableCapacity(), resp.GetMaximumVolumeSize().GetValue())
	}
	return resp.GetAvailableCapacity()
}

// wantCode checks an error's code and that its message says each of words.
func wantCode(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("got %v, want code %v", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("message %q does not say %q", err, w)
		}
	}
}

// again calls until the code is not Aborted, as external-provisioner does: another operation on the volume was under way.
func again(call func() error) error {
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if err := call(); status.Code(err) != codes.Aborted || time.Since(start) > time.Minute {
			return err
		}
	}
}

// run runs a program that must succeed.
func run(t *testing.T, words ...string) string {
	t.Helper()
	out, err := Run(words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "sync", "-f", filepath.Dir(path))
}

func wantFile(t *testing.T, path, text string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, text)
	}
}

// lv is the LV's name in a volume ID.
func (v *Volume) lv() string {
	_, rest, _ := strings.Cut(v.ID, "/")
	lv, _, _ := strings.Cut(rest, ":")
	return lv
}
