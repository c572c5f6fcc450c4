// Package capacity is arithmetic: from the report of a volume group and a layout to
// what a volume may have of it. What is reported to the scheduler and what is granted to a volume come from the
// same function, so they cannot differ.
//
// It knows extents and what makes a volume group unfit. It refuses to know how
// reports are made, CSI, and time.
package capacity

import (
	"fmt"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// metadataMargin is what is kept of a VG's metadata area, in bytes: a volume takes about 500 and tags
// must still be added when no volume fits any more. Without it the last volume would leave a VG in which nothing can be changed.
const metadataMargin = 8 << 10

// MetadataLow reports whether a VG's metadata area may be down to the margin after some tens of volumes more. LVM itself
// grants down to the last byte, so from here on each volume has to be held against Linear.
func MetadataLow(vg *lvm.VG) bool { return vg.MDAFree < 4*metadataMargin }

// Room is what a VG has for volumes of one layout. Sizes are bytes, whole extents.
type Room struct {
	Available int64  // free in all
	Maximum   int64  // the largest single volume
	Minimum   int64  // the smallest volume: one extent
	Reason    string // why it is zero, for people; "" when it is not
}

// Without is what is left of the room for linear volumes when bytes of it, in whole extents, are on their way to others.
func (r Room) Without(bytes int64) Room {
	switch {
	case bytes <= 0 || r.Reason != "":
		return r
	case bytes >= r.Available:
		return Room{Reason: "all that is free is being given to volumes that are being made or extended"}
	}
	r.Available -= bytes
	r.Maximum = min(r.Maximum, r.Available)
	return r
}

// Linear is the room for linear volumes, which take any free extents of the allocatable PVs: what
// is free in all is also the largest volume. reserve bytes are kept free.
func Linear(vg *lvm.VG, reserve int64) Room {
	if reason := unfit(vg); reason != "" {
		return Room{Reason: reason}
	}
	var free int64
	for _, pv := range vg.PVs {
		if pv.Allocatable && !pv.Missing {
			free += pv.Extents - pv.Allocated
		}
	}
	free -= (reserve + vg.ExtentSize - 1) / vg.ExtentSize
	if free <= 0 {
		reason := fmt.Sprintf("volume group %s is full", vg.Name)
		if reserve > 0 {
			reason += fmt.Sprintf(" down to its reserve of %d bytes", reserve)
		}
		return Room{Reason: reason}
	}
	return Room{Available: free * vg.ExtentSize, Maximum: free * vg.ExtentSize, Minimum: vg.ExtentSize}
}

// unfit says why nothing may be made in a VG, or returns "".
func unfit(vg *lvm.VG) string {
	switch {
	case vg.Partial:
		return fmt.Sprintf("volume group %s misses a physical volume; bring its disk back, or see vgreduce(8) --removemissing", vg.Name)
	case vg.Exported:
		return fmt.Sprintf("volume group %s is exported; see vgimport(8)", vg.Name)
	case vg.Shared, vg.Clustered:
		return fmt.Sprintf("volume group %s is shared between hosts, which this driver does not do; use one of this node alone", vg.Name)
	case !vg.Writable:
		return fmt.Sprintf("volume group %s is read-only; see vgchange(8)", vg.Name)
	case vg.MDAFree < metadataMargin:
		return fmt.Sprintf("the metadata area of volume group %s is full (%d of %d bytes free); delete volumes, or add a physical volume with a larger --metadatasize", vg.Name, vg.MDAFree, vg.MDASize)
	}
	for _, pv := range vg.PVs {
		if pv.Duplicate {
			return fmt.Sprintf("physical volume %s of volume group %s is seen on more than one device; see lvmdevices(8) and lvm.conf's filter", pv.Name, vg.Name)
		}
	}
	return ""
}
