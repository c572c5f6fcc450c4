package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Bind implements Mounter.
//
// A read-only bind by mount(2) takes two steps, and between them anybody can write. open_tree(2) makes the new mount without
// putting it anywhere, mount_setattr(2) makes it read-only there, and move_mount(2) shows it: nothing
// is left behind by a step that fails, or by the end of the process. Linux before 5.12 has no mount_setattr.
//
// Where mounts are shared (as / is under systemd), a bind over what is already a bind of the same source appears at the source too: over
// a node in /dev, for one. Callers look at Mounts first.
//
// A bound device node can be written to also through a read-only mount, which concerns the node and not the
// device: the container runtime has to deny it (kubelet makes it do so).
func (l *Linux) Bind(ctx context.Context, source, path string, readOnly bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := bind(source, path, readOnly)
	if errors.Is(err, unix.ENOSYS) {
		err = bindOld(source, path, readOnly)
	}
	if err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, path, err)
	}
	return nil
}

func bind(source, path string, readOnly bool) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer unix.Close(tree) // an unmount, as long as the mount has not been moved
	if readOnly {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return os.NewSyscallError("mount_setattr", err)
		}
	}
	target, err := openTarget(path)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

// openTarget holds a mount point, which may not be a symbolic link.
func openTarget(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// bindOld binds by mount(2). A remount takes the flags anew, except those of access times, so they are read from the new mount.
func bindOld(source, path string, readOnly bool) error {
	target, err := openTarget(path)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := unix.Mount(source, fmt.Sprintf("/proc/self/fd/%d", target), "", unix.MS_BIND, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if !readOnly {
		return nil
	}
	var st unix.Statfs_t
	err = unix.Statfs(path, &st)
	if err == nil {
		flags := uintptr(st.Flags) & (unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSUID) // the same bits in both
		err = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "")
	}
	if err != nil {
		return errors.Join(os.NewSyscallError("remount", err), unix.Unmount(path, unix.UMOUNT_NOFOLLOW))
	}
	return nil
}
