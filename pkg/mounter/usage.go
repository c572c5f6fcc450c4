package mounter

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Usage implements Mounter.
func (l *Linux) Usage(ctx context.Context, path string) (Usage, error) {
	usage, err := l.usages.do(ctx, path, func() (Usage, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			return Usage{}, err
		}
		block := int64(st.Bsize)
		return Usage{
			Bytes:           int64(st.Blocks) * block,
			BytesUsed:       int64(st.Blocks-st.Bfree) * block,
			BytesAvailable:  int64(st.Bavail) * block,
			Inodes:          int64(st.Files),
			InodesUsed:      int64(st.Files - st.Ffree),
			InodesAvailable: int64(st.Ffree),
		}, nil
	})
	if err != nil {
		return Usage{}, fmt.Errorf("measuring %s: %w", path, err)
	}
	return usage, nil
}
