package mountertest

import (
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

var formatTests = map[string]func(*testing.T, *node){
	"format and probe": func(t *testing.T, n *node) {
		dev := n.device(t, "a", size)
		n.wantProbe(t, dev, "")
		for _, fsType := range append(filesystems, filesystems[0]) { // each over the one before
			ok(t, n.Format(t.Context(), dev, fsType, nil))
			n.wantProbe(t, dev, fsType)
			ok(t, n.Check(t.Context(), dev, fsType))
			ok(t, n.Format(t.Context(), dev, fsType, nil))
			n.wantProbe(t, dev, fsType)
		}
	},
	"format with options": func(t *testing.T, n *node) {
		dev := n.device(t, "a", size)
		ok(t, n.Format(t.Context(), dev, "ext4", []string{"-i", "65536", "-E", "stride=16"}))
		ok(t, n.Format(t.Context(), dev, "xfs", []string{"-i", "maxpct=10", "-s", "size=4096"}))
		ok(t, n.Format(t.Context(), dev, "btrfs", []string{"--nodesize", "32k"}))
		n.wantProbe(t, dev, "btrfs")
	},
	"options that mkfs refuses": func(t *testing.T, n *node) {
		dev := n.device(t, "a", size)
		for _, fsType := range filesystems {
			is(t, n.Format(t.Context(), dev, fsType, []string{"--bad"}), mounter.ErrBadOptions)
			n.wantProbe(t, dev, "")
		}
	},
	"too small for the filesystem": func(t *testing.T, n *node) {
		dev := n.device(t, "a", 8*mib)
		plain(t, n.Format(t.Context(), dev, "xfs", nil))
		plain(t, n.Format(t.Context(), dev, "btrfs", nil))
		ok(t, n.Format(t.Context(), dev, "ext4", nil))
	},
	"unknown filesystem": func(t *testing.T, n *node) {
		dev := n.device(t, "a", 16*mib)
		plain(t, n.Format(t.Context(), dev, "zfs", nil))
		plain(t, n.Format(t.Context(), dev, "", nil))
	},
	"signatures that are not data": func(t *testing.T, n *node) {
		for _, s := range []string{"linux_raid_member", "dos"} {
			dev := n.device(t, "lv-"+s, size)
			n.Sign(t, "lv-"+s, s)
			n.wantProbe(t, dev, "")
			ok(t, n.Format(t.Context(), dev, "ext4", nil))
			n.wantProbe(t, dev, "ext4")
			ok(t, n.Mount(t.Context(), dev, "ext4", newDir(t), nil))
		}
	},
	"signatures that are data": func(t *testing.T, n *node) {
		for _, s := range []string{"crypto_LUKS", "swap"} {
			dev := n.device(t, "lv-"+s, size)
			n.Sign(t, "lv-"+s, s)
			n.wantProbe(t, dev, s)
		}
	},
	"grow": func(t *testing.T, n *node) {
		for _, fsType := range filesystems {
			dev, path := n.mounted(t, "lv-"+fsType, fsType)
			before, err := n.Usage(t.Context(), path)
			ok(t, err)
			ok(t, n.Grow(t.Context(), dev, fsType, path))
			if same, err := n.Usage(t.Context(), path); err != nil || same.Bytes != before.Bytes {
				t.Errorf("%s grew from %+v to %+v on a device of the same size (%v)", fsType, before, same, err)
			}
			n.Extend(t, "lv-"+fsType, 2*size)
			dev = n.find(t, "lv-"+fsType)
			for range 2 {
				ok(t, n.Grow(t.Context(), dev, fsType, path))
				after, err := n.Usage(t.Context(), path)
				ok(t, err)
				if grown := after.Bytes - before.Bytes; grown < size*8/10 || grown > size {
					t.Errorf("%s of %d bytes grew by %d on a device grown by %d", fsType, before.Bytes, grown, size)
				}
			}
		}
	},
}
