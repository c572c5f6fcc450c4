package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Linux is the Mounter of the node that it runs on. It is safe for concurrent use.
type Linux struct {
	prefix []string // before each tool's command line

	// Where things are; tests put them elsewhere.
	mapper    string                                   // "/dev/mapper"
	sys       string                                   // "/sys"
	mountinfo string                                   // "/proc/self/mountinfo"
	number    func(path string) (id string, err error) // of the block device whose node is there
	identify  func(*os.File) (id string, err error)

	versions  versions          // of the mkfs
	reads     flights[struct{}] // looks at whether a device can be read, by device
	mountings flights[struct{}] // by command line
	unmounts  flights[struct{}] // by path
	usages    flights[Usage]    // by path
}

var _ Mounter = (*Linux)(nil)

// New returns the Mounter of this node. prefix goes before the command line of each tool that works on a filesystem
// (mkfs, fsck, blkid and the tools that grow one), such as nsenter and its options, so that the tools can be the host's; it
// is empty where they are the caller's own. mount(8) is never prefixed: mounts are made in the caller's
// mount namespace, and propagate to the host's from there.
func New(prefix []string) *Linux {
	return &Linux{prefix: prefix, mapper: "/dev/mapper", sys: "/sys", mountinfo: "/proc/self/mountinfo", number: blockNumber, identify: openNumber}
}

// errNotBlock: the path is there and is no block device.
var errNotBlock = errors.New("not a block device")

// blockNumber is the number of the block device whose node is at path: "253:4".
func blockNumber(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return numberOf(path, &st)
}

func openNumber(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return numberOf(f.Name(), &st)
}

func numberOf(path string, st *unix.Stat_t) (string, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", &os.PathError{Op: "stat", Path: path, Err: errNotBlock}
	}
	return fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))), nil
}

// How long an exclusive open is tried again. Some open a device exclusively for a moment: btrfs's scan of new
// devices before Linux 5.14, fsck, mkfs and blkdiscard that somebody ended.
const (
	busyPatience = time.Second
	busyPause    = 50 * time.Millisecond
)

// open opens the device of an LV, as long as it is still the device it was found as.
// Errors: ErrInactive, ErrInUse, ErrSuspended.
func (l *Linux) open(ctx context.Context, dev Device, flags int) (*os.File, error) {
	for start := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := l.openOnce(dev, flags)
		if !errors.Is(err, ErrInUse) || time.Since(start) > busyPatience {
			return f, err
		}
		if err := sleep(ctx, busyPause); err != nil {
			return nil, err
		}
	}
}

func (l *Linux) openOnce(dev Device, flags int) (*os.File, error) {
	f, err := os.OpenFile(dev.Path, flags, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, fmt.Errorf("%s: %w", dev.Path, ErrInUse)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("%w: %w", ErrInactive, err)
	case err != nil:
		return nil, err
	}
	id, err := l.identify(f)
	switch {
	case err != nil:
	case id != dev.ID:
		err = fmt.Errorf("%s is device %q now and was %q: %w", dev.Path, id, dev.ID, ErrInactive)
	case l.suspended(id): // whatever is done with it would hang
		err = fmt.Errorf("%s: %w", dev.Path, ErrSuspended)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
