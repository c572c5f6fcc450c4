package driver

import (
	"maps"
	"sync"

	"github.com/lvm-csi/lvm-csi/pkg/capacity"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// claims are the sizes, in bytes, that LVs will have once the lvm commands that wait or run now have returned. The scheduler
// sends a burst of pods to the node with the most space, all of them: what is reported must not count space that is already being taken.
type claims struct {
	mu  sync.Mutex
	vgs map[string]map[string]int64 // by VG and LV
}

// add claims size for an LV until release is called. The caller holds the LV's lock, so there is one claim at a time.
func (c *claims) add(vg, lv string, size int64) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vgs[vg] == nil {
		c.vgs[vg] = map[string]int64{}
	}
	c.vgs[vg][lv] = size
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.vgs[vg], lv)
	}
}

// of are the claims on a VG now, by LV.
func (c *claims) of(vg string) map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.vgs[vg])
}

// less is room without what claimed, as it was before the report, is still to take of the VG: an LV that the report has takes
// only what it lacks. So nothing is counted twice, and nothing that was claimed before the report is missed. A claim that is larger
// than the room will be refused and takes nothing.
func less(room capacity.Room, vg *lvm.VG, claimed map[string]int64) capacity.Room {
	var taken int64
	for name, size := range claimed {
		if lv, err := vg.LV(name); err == nil {
			size -= lv.Size
		}
		if size > 0 && size <= room.Maximum {
			taken += (size + vg.ExtentSize - 1) / vg.ExtentSize * vg.ExtentSize
		}
	}
	return room.Without(taken)
}
