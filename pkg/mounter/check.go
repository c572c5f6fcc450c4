package mounter

import (
	"context"
	"errors"
	"fmt"
)

// Check implements Mounter. ext4 is checked by e2fsck -p, which replays the journal, and returns at once when the filesystem
// is marked clean. xfs and btrfs need nothing: the kernel replays their logs when it mounts them, their
// fsck programs do nothing by design (fsck.xfs(8), fsck.btrfs(8)), and their repair tools are for experts.
func (l *Linux) Check(ctx context.Context, dev Device, fsType string) error {
	claim, err := l.Claim(ctx, dev) // e2fsck would say of a mounted one only that it cannot continue
	if err != nil {
		return fmt.Errorf("checking %s: %w", dev.Path, err)
	}
	claim.Close()
	if fsType != "ext4" {
		return nil
	}
	_, _, err = l.tool(ctx, "e2fsck", "-p", dev.Path)
	var e *toolError
	if !errors.As(err, &e) {
		return err
	}
	// e2fsck(8), "EXIT CODE": bits.
	switch {
	case e.code < 0, e.code >= 8:
		return fmt.Errorf("checking %s: %w", dev.Path, err)
	case e.code&4 != 0:
		return fmt.Errorf("the ext4 filesystem on %s has errors that are not repaired without loss; "+
			"run \"e2fsck %s\" by hand on this node: %w", dev.Path, dev.Path, err)
	}
	return nil // 1 and 2: repaired; a reboot (2) is asked for only where the filesystem is mounted
}

// Grow implements Mounter. Each of the tools looks at the sizes itself and does nothing when they agree.
func (l *Linux) Grow(ctx context.Context, dev Device, fsType, path string) error {
	var words []string
	switch fsType {
	case "ext4":
		words = []string{"resize2fs", dev.Path}
	case "xfs":
		words = []string{"xfs_growfs", "-d", path}
	case "btrfs":
		words = []string{"btrfs", "filesystem", "resize", "max", path}
	default:
		return fmt.Errorf("filesystem %q cannot be grown", fsType)
	}
	err := l.still(dev)
	if err == nil {
		_, _, err = l.tool(ctx, words...)
	}
	if err != nil {
		return fmt.Errorf("growing the %s filesystem at %s: %w", fsType, path, err)
	}
	return nil
}
