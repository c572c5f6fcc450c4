package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// Mount implements Mounter. It goes through mount(8) because that knows which options are the kernel's flags, which the
// filesystem's and which SELinux's. The words are built by mount-utils, as kubelet does; its Mount is not used, because it
// cannot be ended, logs what it returns, and is in the group of processes that a Ctrl-C reaches.
//
// A mount that waits for a disk goes on when ctx ends, and the same call made again joins it.
func (l *Linux) Mount(ctx context.Context, dev Device, fsType, path string, options []string) error {
	words := mountWords(dev, fsType, path, options)
	_, err := l.mountings.do(ctx, strings.Join(words, "\x00"), func() (struct{}, error) {
		return struct{}{}, l.mountAt(context.WithoutCancel(ctx), dev, path, words)
	})
	if err != nil {
		return fmt.Errorf("mounting %s at %s: %w", dev.Path, path, err)
	}
	return nil
}

func (l *Linux) mountAt(ctx context.Context, dev Device, path string, words []string) error {
	info, err := os.Lstat(path) // mount(8) and mount(2) follow a link
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	if err := l.still(dev); err != nil {
		return err
	}
	// mount(2) refuses the same filesystem twice at one place; move_mount(2), which mount(8) uses since 2.39, does not.
	mounted, err := l.mountsOf(ctx, dev)
	if err != nil {
		return err
	}
	switch place, err := filepath.EvalSymlinks(path); {
	case err != nil:
		return err
	case slices.Contains(mounted, place):
		return fmt.Errorf("%w: it is mounted there already", ErrInUse)
	}
	_, _, err = run(ctx, words...)
	if err != nil && len(mounted) == 0 && l.claimed(dev) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}

// mountsOf lists the paths at which a device is mounted.
func (l *Linux) mountsOf(ctx context.Context, dev Device) ([]string, error) {
	all, err := l.Mounts(ctx)
	var paths []string
	for _, m := range all {
		if m.DeviceID == dev.ID && !m.Block {
			paths = append(paths, m.Path)
		}
	}
	return paths, err
}

// claimed tells whether somebody holds a device exclusively. What mount(8) says then differs with its version:
// "already mounted or mount point busy", "Can't open blockdev".
func (l *Linux) claimed(dev Device) bool {
	f, err := l.openOnce(dev, os.O_RDONLY|unix.O_EXCL)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrInUse)
}

func mountWords(dev Device, fsType, path string, options []string) []string {
	var flags []string
	if !slices.Contains(options, "ro") {
		flags = []string{"-w"} // else mount(8) mounts a write-protected device read-only and succeeds
	}
	words, _ := mount.MakeMountArgsSensitiveWithMountFlags(dev.Path, path, fsType, options, nil, flags)
	return append([]string{"mount"}, words...)
}

// Unmount implements Mounter. It never detaches lazily (MNT_DETACH), which would hide a mount that goes on writing, and
// never follows a symbolic link (umount2(2)). An unmount that waits for a disk goes on when ctx ends.
func (l *Linux) Unmount(ctx context.Context, path string) error {
	_, err := l.unmounts.do(ctx, path, func() (struct{}, error) {
		return struct{}{}, unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		err = ErrInUse
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		err = ErrNotMounted
	}
	return fmt.Errorf("unmounting %s: %w", path, err)
}
