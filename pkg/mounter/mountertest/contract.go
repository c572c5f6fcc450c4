package mountertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// World is a node on which Contract tries a Mounter: what surrounds one, done by other means than the Mounter itself.
type World interface {
	Mounter() mounter.Mounter
	VG() string
	// Create makes an active LV that holds no signature. It is removed after the test, as are its mounts.
	Create(t *testing.T, lv string, size int64)
	Extend(t *testing.T, lv string, size int64)
	Deactivate(t *testing.T, lv string)
	SetSuspended(t *testing.T, lv string, suspended bool)
	// SetUnreadable makes each read and write of the device an error.
	SetUnreadable(t *testing.T, lv string, unreadable bool)
	// Sign writes the signature of something that is not one of the driver's filesystems where blkid looks for it:
	// "linux_raid_member" (at the end of the device), "dos", "crypto_LUKS", "swap".
	Sign(t *testing.T, lv, signature string)
	// Stain writes something all over an LV.
	Stain(t *testing.T, lv string)
	// Stained tells whether a byte of an LV is not zero.
	Stained(t *testing.T, lv string) bool
	// Occupy keeps a file open in the filesystem mounted at path.
	Occupy(t *testing.T, path string) (leave func())
}

const mib = 1 << 20

// size suits each filesystem.
const size = 320 * mib

// filesystems are the ones that the driver makes.
var filesystems = []string{"ext4", "xfs", "btrfs"}

// Contract is what mounter.Mounter promises, for each world that start makes.
func Contract(t *testing.T, start func(t *testing.T) World) {
	for _, group := range []map[string]func(*testing.T, *node){deviceTests, formatTests, mountTests, bindTests} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.TempDir() // removed after the world's mounts are gone
				w := start(t)
				test(t, &node{World: w, Mounter: w.Mounter()})
			})
		}
	}
}

// node is a World with the Mounter under test, and what the tests below say often.
type node struct {
	World
	mounter.Mounter
}

// device makes an LV and finds its device.
func (n *node) device(t *testing.T, lv string, size int64) mounter.Device {
	t.Helper()
	n.Create(t, lv, size)
	return n.find(t, lv)
}

func (n *node) find(t *testing.T, lv string) mounter.Device {
	t.Helper()
	dev, err := n.Device(t.Context(), n.VG(), lv)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// formatted makes an LV with a filesystem.
func (n *node) formatted(t *testing.T, lv, fsType string) mounter.Device {
	t.Helper()
	dev := n.device(t, lv, size)
	ok(t, n.Format(t.Context(), dev, fsType, nil))
	return dev
}

// mounted makes an LV with a filesystem and mounts it in a new directory.
func (n *node) mounted(t *testing.T, lv, fsType string, options ...string) (mounter.Device, string) {
	t.Helper()
	dev, path := n.formatted(t, lv, fsType), newDir(t)
	ok(t, n.Mount(t.Context(), dev, fsType, path, options))
	return dev, path
}

// mounts lists what is mounted at the paths, in mount order.
func (n *node) mounts(t *testing.T, paths ...string) []mounter.Mount {
	t.Helper()
	all, err := n.Mounts(t.Context())
	ok(t, err)
	return slices.DeleteFunc(all, func(m mounter.Mount) bool { return !slices.Contains(paths, m.Path) })
}

func (n *node) wantMounts(t *testing.T, want []mounter.Mount, paths ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.mounts(t, paths...), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func (n *node) wantProbe(t *testing.T, dev mounter.Device, want string) {
	t.Helper()
	got, err := n.Probe(t.Context(), dev)
	if err != nil || got != want {
		t.Errorf("Probe says %q, %v; want %q", got, err, want)
	}
}

// newDir makes an empty directory whose path has characters that mount tables escape, and no symbolic link.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	ok(t, err)
	dir = filepath.Join(dir, "a b,c")
	ok(t, os.Mkdir(dir, 0o755))
	return dir
}

func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(newDir(t), "file")
	ok(t, os.WriteFile(path, nil, 0o600))
	return path
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// plain wants an error that is none that a caller could take for something else.
func plain(t *testing.T, err error) {
	t.Helper()
	kinds := []error{
		mounter.ErrInactive, mounter.ErrInUse, mounter.ErrSuspended, mounter.ErrBadOptions, mounter.ErrNotMounted,
		context.Canceled, context.DeadlineExceeded,
	}
	if err == nil || slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) {
		t.Errorf("error is %v, want one of no kind", err)
	}
}
