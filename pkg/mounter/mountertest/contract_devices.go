package mountertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

var deviceTests = map[string]func(*testing.T, *node){
	"device": func(t *testing.T, n *node) {
		a, b := n.device(t, "a-1", size), n.device(t, "b", 8*mib)
		if a.Size != size || b.Size != 8*mib || a.ID == b.ID || a.Path != lvPath(n.VG(), "a-1") {
			t.Errorf("devices are %+v and %+v", a, b)
		}
		if a.UUID == b.UUID || !strings.HasPrefix(a.UUID, "LVM-") || len(a.UUID) != len("LVM-")+2*32 {
			t.Errorf("UUIDs are %q and %q", a.UUID, b.UUID)
		}
		n.Extend(t, "a-1", 2*size)
		if again := n.find(t, "a-1"); again.Size != 2*size || again.ID != a.ID || again.UUID != a.UUID {
			t.Errorf("after an extension the device is %+v, was %+v", again, a)
		}
	},
	"VGs with active LVs": func(t *testing.T, n *node) {
		n.device(t, "a", size)
		got, err := n.ActiveVGs(t.Context())
		ok(t, err)
		if !slices.Contains(got, n.VG()) {
			t.Errorf("%s is not among %q", n.VG(), got)
		}
	},
	"device of no LV": func(t *testing.T, n *node) {
		_, err := n.Device(t.Context(), n.VG(), "none")
		is(t, err, mounter.ErrInactive)
		_, err = n.Device(t.Context(), "no-vg", "none")
		is(t, err, mounter.ErrInactive)
	},
	"device of an inactive LV": func(t *testing.T, n *node) {
		dev := n.formatted(t, "a", "ext4")
		n.Deactivate(t, "a")
		_, err := n.Device(t.Context(), n.VG(), "a")
		is(t, err, mounter.ErrInactive)
		_, err = n.Claim(t.Context(), dev)
		is(t, err, mounter.ErrInactive)
		_, err = n.Probe(t.Context(), dev)
		is(t, err, mounter.ErrInactive)
		is(t, n.Erase(t.Context(), dev, mounter.EraseZero), mounter.ErrInactive)
		is(t, n.Format(t.Context(), dev, "ext4", nil), mounter.ErrInactive)
	},
	"device that is suspended": func(t *testing.T, n *node) {
		dev := n.formatted(t, "a", "ext4")
		n.SetSuspended(t, "a", true)
		_, err := n.Device(t.Context(), n.VG(), "a")
		is(t, err, mounter.ErrSuspended)
		_, err = n.Claim(t.Context(), dev)
		is(t, err, mounter.ErrSuspended)
		_, err = n.Probe(t.Context(), dev)
		is(t, err, mounter.ErrSuspended)
		is(t, n.Format(t.Context(), dev, "ext4", nil), mounter.ErrSuspended)
		is(t, n.Check(t.Context(), dev, "ext4"), mounter.ErrSuspended)
		is(t, n.Erase(t.Context(), dev, mounter.EraseZero), mounter.ErrSuspended)
		is(t, n.Mount(t.Context(), dev, "ext4", newDir(t), nil), mounter.ErrSuspended)
		is(t, n.Grow(t.Context(), dev, "ext4", newDir(t)), mounter.ErrSuspended)
		n.SetSuspended(t, "a", false)
		n.find(t, "a")
	},
	"claims exclude each other": func(t *testing.T, n *node) {
		dev := n.device(t, "a", size)
		claim, err := n.Claim(t.Context(), dev)
		ok(t, err)
		_, err = n.Claim(t.Context(), dev)
		is(t, err, mounter.ErrInUse)
		is(t, n.Format(t.Context(), dev, "ext4", nil), mounter.ErrInUse)
		is(t, n.Erase(t.Context(), dev, mounter.EraseZero), mounter.ErrInUse)
		n.wantProbe(t, dev, "") // a look is no use
		ok(t, claim.Close())
		claim, err = n.Claim(t.Context(), dev)
		ok(t, err)
		ok(t, claim.Close())
	},
	"claim excludes mount": func(t *testing.T, n *node) {
		dev, path := n.formatted(t, "a", "ext4"), newDir(t)
		claim, err := n.Claim(t.Context(), dev)
		ok(t, err)
		is(t, n.Mount(t.Context(), dev, "ext4", path, nil), mounter.ErrInUse)
		n.wantMounts(t, nil, path)
		ok(t, claim.Close())
		ok(t, n.Mount(t.Context(), dev, "ext4", path, nil))
	},
	"mount excludes what would write": func(t *testing.T, n *node) {
		for _, fsType := range filesystems {
			dev, path := n.mounted(t, "lv-"+fsType, fsType)
			_, err := n.Claim(t.Context(), dev)
			is(t, err, mounter.ErrInUse)
			for _, other := range filesystems {
				is(t, n.Format(t.Context(), dev, other, nil), mounter.ErrInUse)
			}
			is(t, n.Erase(t.Context(), dev, mounter.EraseZero), mounter.ErrInUse)
			is(t, n.Erase(t.Context(), dev, mounter.EraseDiscard), mounter.ErrInUse)
			n.wantProbe(t, dev, fsType)
			ok(t, n.Unmount(t.Context(), path))
			ok(t, n.Check(t.Context(), dev, fsType))
		}
	},
	"unreadable is not blank": func(t *testing.T, n *node) {
		dev := n.formatted(t, "a", "ext4")
		n.SetUnreadable(t, "a", true)
		_, err := n.Probe(t.Context(), dev)
		plain(t, err)
		_, err = n.Claim(t.Context(), dev)
		plain(t, err)
		plain(t, n.Format(t.Context(), dev, "ext4", nil))
		plain(t, n.Check(t.Context(), dev, "ext4"))
		plain(t, n.Erase(t.Context(), dev, mounter.EraseZero))
		plain(t, n.Erase(t.Context(), dev, mounter.EraseDiscard))
		plain(t, n.Mount(t.Context(), dev, "ext4", newDir(t), nil))
		n.SetUnreadable(t, "a", false)
		n.wantProbe(t, dev, "ext4")
	},
	"erase": func(t *testing.T, n *node) {
		dev := n.device(t, "a", 132*mib) // more than the kernel is given at once
		for _, how := range []mounter.Erase{mounter.EraseZero, mounter.EraseDiscard} {
			n.Stain(t, "a")
			ok(t, n.Erase(t.Context(), dev, mounter.EraseNone))
			if !n.Stained(t, "a") {
				t.Error("erased by none")
			}
			ok(t, n.Erase(t.Context(), dev, how))
			if n.Stained(t, "a") {
				t.Errorf("not all is zero after %s", how)
			}
			ok(t, n.Erase(t.Context(), dev, how))
		}
		plain(t, n.Erase(t.Context(), dev, "shred"))
	},
	"erase takes the filesystem": func(t *testing.T, n *node) {
		dev := n.formatted(t, "a", "xfs")
		ok(t, n.Erase(t.Context(), dev, mounter.EraseZero))
		n.wantProbe(t, dev, "")
	},
	"ended contexts": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "ext4")
		blank := n.device(t, "b", 4*mib)
		n.Stain(t, "b")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := n.Device(ctx, n.VG(), "a")
		is(t, err, context.Canceled)
		_, err = n.Claim(ctx, blank)
		is(t, err, context.Canceled)
		_, err = n.Probe(ctx, dev)
		is(t, err, context.Canceled)
		is(t, n.Format(ctx, blank, "ext4", nil), context.Canceled)
		is(t, n.Check(ctx, blank, "ext4"), context.Canceled)
		is(t, n.Grow(ctx, dev, "ext4", path), context.Canceled)
		is(t, n.Erase(ctx, blank, mounter.EraseZero), context.Canceled)
		_, err = n.Mounts(ctx)
		is(t, err, context.Canceled)
		is(t, n.Bind(ctx, path, newDir(t), false), context.Canceled)
		is(t, n.Unmount(ctx, path), context.Canceled)
		_, err = n.Usage(ctx, path)
		is(t, err, context.Canceled)
		if len(n.mounts(t, path)) != 1 || !n.Stained(t, "b") {
			t.Error("something was done after the end")
		}
	},
}
