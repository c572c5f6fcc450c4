package mounter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eraseChunk is what one call into the kernel erases: it cannot be stopped, and takes a second or two on
// a slow disk.
const eraseChunk = 128 << 20

// Erase implements Mounter.
//
// Zeroes are written by the ioctl BLKZEROOUT, for which the kernel uses the disk's own command (WRITE SAME, Write Zeroes) where there is one and
// writes pages of zeroes where there is none; it never takes a discard for zeroes (blkdev_common_ioctl passes
// BLKDEV_ZERO_NOUNMAP).
//
// Blocks are given back by fallocate(FALLOC_FL_PUNCH_HOLE|FALLOC_FL_KEEP_SIZE), which on a block device (blkdev_fallocate in
// block/fops.c) means "zero, and deallocate if you can": it is done only where the disk guarantees zeroes afterwards,
// else EOPNOTSUPP. A bare BLKDISCARD promises nothing of what is read later, so it is followed by BLKZEROOUT.
//
// Both drop the range from the page cache first (truncate_bdev_range), so no old bytes are read from there either.
func (l *Linux) Erase(ctx context.Context, dev Device, how Erase) error {
	var chunk func(f *os.File, at, n int64) error
	switch how {
	case EraseNone:
		return nil
	case EraseZero:
		chunk = zeroOut
	case EraseDiscard:
		chunk = punchHole
	default:
		return fmt.Errorf("no way %q to erase", how)
	}
	if err := l.erase(ctx, dev, chunk); err != nil {
		return fmt.Errorf("erasing %s: %w", dev.Path, err)
	}
	return nil
}

func (l *Linux) erase(ctx context.Context, dev Device, chunk func(f *os.File, at, n int64) error) (err error) {
	f, err := l.open(ctx, dev, os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd) // the device may have grown since it was found
	if err != nil {
		return err
	}
	for at := int64(0); at < size; at += eraseChunk {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("at byte %d of %d: %w", at, size, err)
		}
		if err := chunk(f, at, min(eraseChunk, size-at)); err != nil {
			return fmt.Errorf("at byte %d of %d: %w", at, size, err)
		}
	}
	return f.Sync() // and the disk's own cache
}

func zeroOut(f *os.File, at, n int64) error {
	return rangeIoctl(f, "BLKZEROOUT", unix.BLKZEROOUT, at, n)
}

func punchHole(f *os.File, at, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return os.NewSyscallError("fallocate", err)
	}
	if err := rangeIoctl(f, "BLKDISCARD", unix.BLKDISCARD, at, n); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return zeroOut(f, at, n)
}

// rangeIoctl calls an ioctl that takes the beginning and the length of a range of bytes.
func rangeIoctl(f *os.File, name string, request uintptr, at, n int64) error {
	arg := [2]uint64{uint64(at), uint64(n)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}
