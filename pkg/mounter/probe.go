package mounter

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// probed is how much of a device is read before blkid looks: it covers the superblocks of all filesystems whose kind is
// known from their beginning, LUKS and swap.
const probed = 1 << 20

// Probe implements Mounter.
//
// blkid exits with 2 for a device that it cannot read as it does for a blank one, so the device is read
// here first: a device that cannot be read is an error.
//
// Of blkid's usages (libblkid's blkid_probe_filter_superblocks_usage) "filesystem" is what is looked for, and "crypto" and
// "other" (swap, journals) are data that nobody may take for blank. "raid" is left out: RAID and LVM members leave
// signatures behind that say nothing about what an LV holds, and that blkid would find ambiguous beside a
// filesystem. Partition tables have no TYPE.
func (l *Linux) Probe(ctx context.Context, dev Device) (string, error) {
	fsType, err := l.probe(ctx, dev)
	if err != nil {
		return "", fmt.Errorf("probing %s: %w", dev.Path, err)
	}
	return fsType, nil
}

func (l *Linux) probe(ctx context.Context, dev Device) (string, error) {
	if err := l.readable(ctx, dev, probed); err != nil {
		return "", err
	}
	out, _, err := l.tool(ctx, "blkid", "-p", "-u", "filesystem,crypto,other", "-o", "export", dev.Path)
	var e *toolError
	switch {
	case errors.As(err, &e) && e.code == 2 && len(e.lines()) == 0:
		return "", nil
	case exitCode(err) == 8:
		return "", fmt.Errorf("it carries the signatures of more than one filesystem: %w", err)
	case err != nil:
		return "", err
	}
	return typeOf(out), nil
}

// typeOf finds the TYPE in blkid's output of the form "export".
func typeOf(out string) string {
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "TYPE="); ok {
			return value
		}
	}
	return ""
}
