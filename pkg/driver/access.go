package driver

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// filesystems that the driver makes, and the smallest device for each in bytes: what
// mkfs refuses below (mkfs.xfs(8), mkfs.btrfs(8)), on a round figure.
var minimumSize = map[string]int64{
	"ext4":  1 << 20,
	"xfs":   300 << 20,
	"btrfs": 128 << 20,
	block:   0,
}

const defaultFS = "ext4"

// modes that a volume of one node can have, and whether only one target may hold it.
var singleWriter = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        false,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   false,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  false,
}

// access is what one capability asks of a volume.
type access struct {
	fs       string // "ext4", "xfs", "btrfs", block, or "" for whatever filesystem is there
	flags    []string
	single   bool // one target at a time
	readOnly bool
}

// parseAccess reads a capability, or says why it cannot be had.
func parseAccess(c *csi.VolumeCapability) (access, error) {
	mode := c.GetAccessMode().GetMode()
	single, ok := singleWriter[mode]
	if !ok {
		return access{}, invalidf("volume_capability.access_mode is %s; a volume on a node's own disks serves one node: "+
			"use ReadWriteOnce or ReadWriteOncePod", mode)
	}
	a := access{single: single, readOnly: mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY}
	switch {
	case c.GetBlock() != nil:
		a.fs = block
	case c.GetMount() != nil:
		a.fs, a.flags = c.GetMount().GetFsType(), c.GetMount().GetMountFlags()
		if _, ok := minimumSize[a.fs]; a.fs != "" && (!ok || a.fs == block) {
			return access{}, invalidf("volume_capability.mount.fs_type is %q; choose ext4, xfs or btrfs", a.fs)
		}
	default:
		return access{}, required("volume_capability.access_type")
	}
	return a, nil
}

// parseAccesses reads the capabilities of a volume to be made: they must agree on what it holds.
func parseAccesses(cs []*csi.VolumeCapability) (fs string, err error) {
	if len(cs) == 0 {
		return "", required("volume_capabilities")
	}
	var all []string
	mount := false
	for _, c := range cs {
		a, err := parseAccess(c)
		if err != nil {
			return "", err
		}
		mount = mount || a.fs != block
		if a.fs != "" && !slices.Contains(all, a.fs) {
			all = append(all, a.fs)
		}
	}
	switch {
	case mount && slices.Contains(all, block):
		return "", invalidf("volume_capabilities ask for block and mount at once; a volume is one of them")
	case len(all) == 0:
		return defaultFS, nil
	case len(all) == 1:
		return all[0], nil
	}
	return "", invalidf("volume_capabilities ask for %v at once; a volume is one of them", all)
}
