// Package mounter is what a node does with a volume's block device once LVM
// has made it: find it, make, probe, check and grow the filesystem on it, erase it, and
// mount it.
//
// It knows the kernel's block and mount interfaces, and the mkfs and fsck tools. It refuses to
// know LVM commands, tags and CSI; and it never decides to format: it
// does so when told, and otherwise an unreadable device is an error, never a blank one.
package mounter

import (
	"context"
	"errors"
	"io"
)

// What can be wrong, for errors.Is.
var (
	// ErrInactive: the LV has no device, because it is not active or does not exist.
	ErrInactive = errors.New("the logical volume has no device")
	// ErrInUse: something else has the device open, or the mount point is busy.
	ErrInUse = errors.New("the device is in use")
	// ErrSuspended: IO to the device waits; an open or a read could hang.
	ErrSuspended = errors.New("the device is suspended")
	// ErrBadOptions: a tool refused the words it was given.
	ErrBadOptions = errors.New("the options are refused")
	// ErrNotMounted: the path is not a mount point.
	ErrNotMounted = errors.New("nothing is mounted there")
)

// Device is the block device of an active LV.
type Device struct {
	Path string // "/dev/mapper/vg0-pvc--1"
	ID   string // "253:4", the same for every path of the device
	UUID string // lvm.MapperUUID of the LV: another LV of that name has another
	Size int64  // bytes
}

// Mount is one mount point of this node.
type Mount struct {
	Path     string
	DeviceID string // of the volume's block device: for a filesystem the one it is on, for a block volume the node bound there; "" for a btrfs whose device is gone
	Block    bool   // a device node is bound here, not a filesystem
	ReadOnly bool   // this mount point, whatever the filesystem below it
	FSType   string // "" for Block
}

// Usage is what a mounted filesystem holds. Counts are bytes and inodes; btrfs has no inode counts (0).
type Usage struct {
	Bytes, BytesUsed, BytesAvailable    int64
	Inodes, InodesUsed, InodesAvailable int64
}

// Erase is how the blocks of a device are made unreadable.
type Erase string

// The ways to erase. After Zero and Discard every byte reads as zero.
const (
	EraseZero    Erase = "zero"    // write zeroes, by the disk's own command where it has one
	EraseDiscard Erase = "discard" // give the blocks back to the disk, and write zeroes where that does not promise them
	EraseNone    Erase = "none"
)

// Mounter is the node's block devices and mounts. The real one is Linux; mountertest has a fake over
// lvmtest's volumes.
//
// Every method may run for long on a huge or slow device, and returns early with ctx.Err() when ctx ends where
// stopping half way is harmless. Every method that takes a Device returns ErrInactive when it is not that device any more,
// and ErrSuspended.
type Mounter interface {
	// Device finds the device of an active LV and makes sure that it is that LV's. It opens nothing.
	// Errors: ErrInactive, ErrSuspended.
	Device(ctx context.Context, vg, lv string) (Device, error)
	// ActiveVGs names the VGs that have active LVs, in no order. It opens nothing and runs nothing.
	ActiveVGs(ctx context.Context) ([]string, error)
	// Claim opens a device exclusively and read-only, so that nobody can mount it until Close. It reads the device too:
	// one whose disk is gone could still be opened.
	// Errors: ErrInUse, after about a second of trying.
	Claim(ctx context.Context, dev Device) (io.Closer, error)
	// Probe names the filesystem on a device: "ext4", "xfs", "btrfs", another name that blkid knows, or "" when it is
	// readable and has none. Signatures of RAID, LVM or partition tables are not filesystems and do not count.
	Probe(ctx context.Context, dev Device) (string, error)
	// Format makes a filesystem, over whatever is there; where options may have made mkfs do something else it looks
	// afterwards. Errors: ErrBadOptions, with
	// mkfs's own words; ErrInUse.
	Format(ctx context.Context, dev Device, fsType string, options []string) error
	// Check repairs what can be repaired without loss before a mount; an error means it must not be mounted.
	// Errors: ErrInUse while it is mounted.
	Check(ctx context.Context, dev Device, fsType string) error
	// Grow makes a mounted filesystem as large as its device. Doing it again does nothing.
	Grow(ctx context.Context, dev Device, fsType, path string) error
	// Erase makes every byte of a device unreadable. It holds the device exclusively meanwhile, stops with ctx, and can be
	// begun again. Errors: ErrInUse.
	Erase(ctx context.Context, dev Device, how Erase) error
	// Mounts lists the mount points that are on block devices, in mount order.
	Mounts(ctx context.Context) ([]Mount, error)
	// Mount mounts the filesystem on a device at a directory that exists. Options are one each, as mount(8) takes them after -o;
	// one may contain commas within quotes. A write-protected device is mounted only with "ro".
	// Errors: ErrInUse when the device is claimed, or is mounted at that very path.
	Mount(ctx context.Context, dev Device, fsType, path string, options []string) error
	// Bind makes source (a mounted directory, or a device node) appear at path as well; path exists
	// and is of the same kind. A read-only bind of a device node does not keep anybody from writing to the device.
	Bind(ctx context.Context, source, path string, readOnly bool) error
	// Unmount undoes one Mount or Bind, the last one at path. It follows no symbolic link. Errors: ErrNotMounted, ErrInUse.
	Unmount(ctx context.Context, path string) error
	// Usage measures the filesystem mounted at path. It starts no process and returns when ctx ends even if the
	// filesystem hangs.
	Usage(ctx context.Context, path string) (Usage, error)
}
