package mounter

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mounts implements Mounter. It reads the mount table and touches no filesystem in it except devtmpfs, which has no disk: one
// that hangs does not hang the list.
func (l *Linux) Mounts(ctx context.Context) ([]Mount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	table, err := os.Open(l.mountinfo)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	infos, err := mountinfo.GetMountsFromReader(table, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", l.mountinfo, err)
	}
	var all []Mount
	for _, info := range infos {
		if m, ok := l.mount(info); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// mount makes a Mount of an entry of the mount table (proc_pid_mountinfo(5)); false if it is on no block device.
func (l *Linux) mount(info *mountinfo.Info) (Mount, bool) {
	m := Mount{
		Path: info.Mountpoint, FSType: info.FSType,
		ReadOnly: slices.Contains(strings.Split(info.Options, ","), "ro"), // of the mount; VFSOptions are the filesystem's
	}
	switch {
	case info.Major != 0:
		m.DeviceID = fmt.Sprintf("%d:%d", info.Major, info.Minor)
	case info.FSType == "btrfs":
		// btrfs numbers its subvolumes itself (0:N), and names a device of the filesystem. The entry stays
		// when the device is gone: something is mounted there.
		m.DeviceID, _ = l.number(info.Source)
	case bound(info):
		id, err := l.number(m.Path)
		if err != nil {
			return Mount{}, false
		}
		m.DeviceID, m.Block, m.FSType = id, true, ""
	default:
		return Mount{}, false
	}
	return m, true
}

// bound tells whether something within a filesystem of device nodes is mounted, rather than the whole of it. A /dev
// that somebody filled himself is a tmpfs.
func bound(info *mountinfo.Info) bool {
	return info.Root != "/" && (info.FSType == "devtmpfs" || info.FSType == "tmpfs")
}
