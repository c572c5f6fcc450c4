package mounter

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A mount table captured from Linux 6.1, with mounts by util-linux 2.38. It is embedded because these tests run
// in VMs as well, away from their folder.
//
//go:embed testdata/mountinfo-6.1
var capturedTable []byte

func withTable(t *testing.T) *Linux {
	t.Helper()
	l := New(nil)
	l.mountinfo = filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(l.mountinfo, capturedTable, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMounts(t *testing.T) {
	l := withTable(t)
	var looked []string
	l.number = func(path string) (string, error) {
		looked = append(looked, path)
		switch path {
		case "/dev/mtc/btrfs":
			return "253:3", nil
		case "/var/tmp/cap/node":
			return "253:4", nil
		}
		return "", errNotBlock
	}
	got, err := l.Mounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{Path: "/", DeviceID: "254:0", FSType: "ext4"},
		{Path: "/var/tmp/cap/ext4 dir", DeviceID: "253:1", FSType: "ext4"},
		{Path: "/var/tmp/cap/xfs dir", DeviceID: "253:2", FSType: "xfs"},
		{Path: "/var/tmp/cap/btrfs dir", DeviceID: "253:3", FSType: "btrfs"},
		{Path: "/var/tmp/cap/bound", DeviceID: "253:1", FSType: "ext4"},
		{Path: "/var/tmp/cap/ro", DeviceID: "253:1", FSType: "ext4", ReadOnly: true},
		{Path: "/var/tmp/cap/sub", DeviceID: "253:1", FSType: "ext4"},
		{Path: "/var/tmp/cap/node", DeviceID: "253:4", Block: true},
		{Path: "/var/tmp/cap/vol", DeviceID: "253:3", FSType: "btrfs"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	// A look at a mount point on a disk would hang when the disk does.
	if want := []string{"/dev/mtc/btrfs", "/var/tmp/cap/node", "/var/tmp/cap/null", "/dev/mtc/btrfs"}; !slices.Equal(looked, want) {
		t.Errorf("looked at %q, want %q", looked, want)
	}
}

// With the source of a btrfs gone, its mount point still is one.
func TestMountsWithoutSource(t *testing.T) {
	l := withTable(t)
	l.number = func(string) (string, error) { return "", os.ErrNotExist }
	got, err := l.Mounts(t.Context())
	if err != nil || !slices.Contains(got, Mount{Path: "/var/tmp/cap/btrfs dir", FSType: "btrfs"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMountAtWrongPlaces(t *testing.T) {
	l, calls := fakeTools(t, map[string]string{"mount": ""})
	dev := regular(t, l, 4096)
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(dir, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, file, filepath.Join(dir, "none")} {
		if err := l.Mount(t.Context(), dev, "ext4", path, nil); err == nil {
			t.Errorf("mounted at %s", path)
		}
	}
	dev.ID = "253:2"
	if err := l.Mount(t.Context(), dev, "ext4", dir, nil); !errors.Is(err, ErrInactive) {
		t.Errorf("a device that is another now: %v", err)
	}
	if got := calls(); got[0] != "" {
		t.Errorf("ran %q", got)
	}
}

// What claims a device cannot be had without a real one: see mountertest.
func TestMountTwiceAtOnePlace(t *testing.T) {
	l, calls := fakeTools(t, map[string]string{"mount": "exit 32"})
	dev, dir := regular(t, l, 4096), t.TempDir()
	l.mountinfo = filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(l.mountinfo, []byte("1 0 253:1 / "+dir+" rw - xfs /dev/mapper/vg-a rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Mount(t.Context(), dev, "xfs", dir, nil); !errors.Is(err, ErrInUse) || calls()[0] != "" {
		t.Errorf("error is %v; ran %q", err, calls())
	}
	if err := l.Mount(t.Context(), dev, "xfs", t.TempDir(), nil); exitCode(err) != 32 || errors.Is(err, ErrInUse) {
		t.Errorf("at another place: %v", err)
	}
}

func TestUsage(t *testing.T) {
	u, err := New(nil).Usage(t.Context(), t.TempDir())
	if err != nil || u.Bytes <= 0 || u.BytesUsed > u.Bytes {
		t.Errorf("got %+v, %v", u, err)
	}
	if _, err := New(nil).Usage(t.Context(), "/no/such/path"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
