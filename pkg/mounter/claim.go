package mounter

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Claim implements Mounter. O_EXCL without O_CREAT is the kernel's own exclusion of block devices (open(2)): mounts,
// device-mapper tables, mkfs and fsck take part in it. The open is read-only because udev watches for the end
// of each open for writing, and would then open the device itself.
//
// It reads the first sector too: a disk that is gone can still be opened, and whoever claims wants to
// know before it changes anything.
func (l *Linux) Claim(ctx context.Context, dev Device) (io.Closer, error) {
	f, err := l.open(ctx, dev, os.O_RDONLY|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err := l.readable(ctx, dev, 4096); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readable reads n bytes at the beginning of a device and some at its end. They come from the page cache only while
// something has the device open: the kernel drops the cache when the last opener closes it.
func (l *Linux) readable(ctx context.Context, dev Device, n int64) error {
	_, err := l.reads.do(ctx, fmt.Sprint(dev.Path, dev.ID, n), func() (struct{}, error) {
		f, err := l.openOnce(dev, os.O_RDONLY)
		if err != nil {
			return struct{}{}, err
		}
		defer f.Close()
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return struct{}{}, err
		}
		head, tail := make([]byte, min(n, size)), make([]byte, min(4096, size))
		if _, err = f.ReadAt(head, 0); err == nil {
			_, err = f.ReadAt(tail, size-int64(len(tail)))
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, nil
	})
	return err
}
