package mountertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

var mountTests = map[string]func(*testing.T, *node){
	"mount and unmount": func(t *testing.T, n *node) {
		for _, fsType := range filesystems {
			dev, path := n.mounted(t, "lv-"+fsType, fsType)
			n.wantMounts(t, []mounter.Mount{{Path: path, DeviceID: dev.ID, FSType: fsType}}, path)
			ok(t, n.Unmount(t.Context(), path))
			n.wantMounts(t, nil, path)
			is(t, n.Unmount(t.Context(), path), mounter.ErrNotMounted)
		}
	},
	"unmount what is not there": func(t *testing.T, n *node) {
		dir := newDir(t)
		is(t, n.Unmount(t.Context(), dir), mounter.ErrNotMounted)
		is(t, n.Unmount(t.Context(), filepath.Join(dir, "none")), mounter.ErrNotMounted)
		is(t, n.Unmount(t.Context(), newFile(t)), mounter.ErrNotMounted)
	},
	"unmount what is in use": func(t *testing.T, n *node) {
		_, path := n.mounted(t, "a", "ext4")
		leave := n.Occupy(t, path)
		is(t, n.Unmount(t.Context(), path), mounter.ErrInUse)
		if len(n.mounts(t, path)) != 1 {
			t.Error("unmounted all the same")
		}
		leave()
		ok(t, n.Unmount(t.Context(), path))
	},
	"mount options": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "ext4", "ro", "noatime")
		n.wantMounts(t, []mounter.Mount{{Path: path, DeviceID: dev.ID, FSType: "ext4", ReadOnly: true}}, path)
		n.Extend(t, "a", 2*size)
		plain(t, n.Grow(t.Context(), dev, "ext4", path))
	},
	"mount of something else": func(t *testing.T, n *node) {
		dev, path := n.formatted(t, "a", "xfs"), newDir(t)
		plain(t, n.Mount(t.Context(), dev, "ext4", path, nil))
		blank := n.device(t, "b", size)
		plain(t, n.Mount(t.Context(), blank, "ext4", path, nil))
		n.wantMounts(t, nil, path)
	},
	"mount at a wrong place": func(t *testing.T, n *node) {
		dev, dir := n.formatted(t, "a", "ext4"), newDir(t)
		link := dir + "-link"
		ok(t, os.Symlink(dir, link))
		plain(t, n.Mount(t.Context(), dev, "ext4", link, nil))
		plain(t, n.Mount(t.Context(), dev, "ext4", filepath.Join(dir, "none"), nil))
		plain(t, n.Mount(t.Context(), dev, "ext4", newFile(t), nil))
		n.wantMounts(t, nil, dir, link)
	},
	"the same mount twice": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "ext4")
		is(t, n.Mount(t.Context(), dev, "ext4", path, nil), mounter.ErrInUse)
		other := newDir(t)
		ok(t, n.Mount(t.Context(), dev, "ext4", other, nil))
		ok(t, n.Unmount(t.Context(), path))
		_, err := n.Claim(t.Context(), dev)
		is(t, err, mounter.ErrInUse) // by the other mount
		ok(t, n.Unmount(t.Context(), other))
		claim, err := n.Claim(t.Context(), dev)
		ok(t, err)
		ok(t, claim.Close())
	},
	"usage": func(t *testing.T, n *node) {
		for _, fsType := range filesystems {
			_, path := n.mounted(t, "lv-"+fsType, fsType)
			u, err := n.Usage(t.Context(), path)
			ok(t, err)
			if u.Bytes < size*3/4 || u.Bytes > size || u.BytesUsed <= 0 || u.BytesUsed > size/4 ||
				u.BytesAvailable <= 0 || u.BytesUsed+u.BytesAvailable > u.Bytes {
				t.Errorf("%s: %+v", fsType, u)
			}
			if fsType == "btrfs" {
				if u.Inodes != 0 || u.InodesUsed != 0 || u.InodesAvailable != 0 {
					t.Errorf("btrfs: %+v", u)
				}
			} else if u.Inodes <= 0 || u.InodesUsed <= 0 || u.InodesUsed+u.InodesAvailable != u.Inodes {
				t.Errorf("%s: %+v", fsType, u)
			}
		}
	},
}

var bindTests = map[string]func(*testing.T, *node){
	"bind": func(t *testing.T, n *node) {
		for _, fsType := range filesystems {
			dev, path := n.mounted(t, "lv-"+fsType, fsType)
			rw, ro := newDir(t), newDir(t)
			ok(t, n.Bind(t.Context(), path, rw, false))
			ok(t, n.Bind(t.Context(), path, ro, true))
			n.wantMounts(t, []mounter.Mount{
				{Path: path, DeviceID: dev.ID, FSType: fsType},
				{Path: rw, DeviceID: dev.ID, FSType: fsType},
				{Path: ro, DeviceID: dev.ID, FSType: fsType, ReadOnly: true},
			}, path, rw, ro)
			ok(t, n.Unmount(t.Context(), path)) // the binds are mounts of their own
			_, err := n.Claim(t.Context(), dev)
			is(t, err, mounter.ErrInUse)
			ok(t, n.Unmount(t.Context(), rw))
			ok(t, n.Unmount(t.Context(), ro))
			claim, err := n.Claim(t.Context(), dev)
			ok(t, err)
			ok(t, claim.Close())
		}
	},
	"bind of a read-only mount": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "ext4", "ro")
		to := newDir(t)
		ok(t, n.Bind(t.Context(), path, to, false))
		n.wantMounts(t, []mounter.Mount{{Path: to, DeviceID: dev.ID, FSType: "ext4", ReadOnly: true}}, to)
	},
	"bind of a device": func(t *testing.T, n *node) {
		dev := n.device(t, "a", 16*mib)
		rw, ro := newFile(t), newFile(t)
		ok(t, n.Bind(t.Context(), dev.Path, rw, false))
		ok(t, n.Bind(t.Context(), dev.Path, ro, true))
		n.wantMounts(t, []mounter.Mount{
			{Path: rw, DeviceID: dev.ID, Block: true},
			{Path: ro, DeviceID: dev.ID, Block: true, ReadOnly: true},
		}, rw, ro)
		claim, err := n.Claim(t.Context(), dev) // a bound node is not an open device
		ok(t, err)
		ok(t, claim.Close())
		for _, path := range []string{rw, ro} {
			ok(t, n.Unmount(t.Context(), path))
		}
		is(t, n.Unmount(t.Context(), rw), mounter.ErrNotMounted)
		n.wantMounts(t, nil, rw, ro)
	},
	"stacked binds": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "xfs")
		to := newDir(t)
		ok(t, n.Bind(t.Context(), path, to, false))
		ok(t, n.Bind(t.Context(), path, to, true))
		m := mounter.Mount{Path: to, DeviceID: dev.ID, FSType: "xfs"}
		ro := m
		ro.ReadOnly = true
		n.wantMounts(t, []mounter.Mount{m, ro}, to)
		ok(t, n.Unmount(t.Context(), to))
		n.wantMounts(t, []mounter.Mount{m}, to)
		ok(t, n.Unmount(t.Context(), to))
		is(t, n.Unmount(t.Context(), to), mounter.ErrNotMounted)
	},
	"bind at a wrong place": func(t *testing.T, n *node) {
		dev, path := n.mounted(t, "a", "ext4")
		dir, file := newDir(t), newFile(t)
		link, fileLink := dir+"-link", file+"-link"
		ok(t, os.Symlink(dir, link))
		ok(t, os.Symlink(file, fileLink))
		for _, readOnly := range []bool{false, true} {
			plain(t, n.Bind(t.Context(), path, link, readOnly))
			plain(t, n.Bind(t.Context(), path, filepath.Join(dir, "none"), readOnly))
			plain(t, n.Bind(t.Context(), path, file, readOnly))
			plain(t, n.Bind(t.Context(), dev.Path, dir, readOnly))
			plain(t, n.Bind(t.Context(), dev.Path, fileLink, readOnly))
			plain(t, n.Bind(t.Context(), dev.Path+"-none", file, readOnly))
		}
		n.wantMounts(t, nil, dir, link, file, fileLink)
	},
	"unmount does not follow a link": func(t *testing.T, n *node) {
		_, path := n.mounted(t, "a", "ext4")
		link := path + "-link"
		ok(t, os.Symlink(path, link))
		is(t, n.Unmount(t.Context(), link), mounter.ErrNotMounted)
		if len(n.mounts(t, path)) != 1 {
			t.Error("unmounted through a symbolic link")
		}
	},
}
