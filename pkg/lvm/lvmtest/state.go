package lvmtest

import (
	"fmt"
	"slices"
)

// vg is a volume group as its metadata and the kernel's tables describe it.
type vg struct {
	name, uuid   string
	extentSize   int64
	metadataSize int64
	seqno        int64
	systemID     string
	exported     bool
	pvs          []*pv
	lvs          []*lv
}

// pv is a physical volume. What is written to an extent stays there whoever owns it.
type pv struct {
	name, uuid  string
	tags        []string
	allocatable bool
	unplugged   bool // the device is not there
	outdated    bool // it was not there when the metadata changed, and LVM does not take it back by itself
	extents     []extent
}

type extent struct {
	owner *lv
	stain string
}

func (p *pv) missing() bool { return p.unplugged || p.outdated }

// at names one extent of a PV.
type at struct {
	pv *pv
	n  int
}

// lv is a logical volume, and its device while it is active.
type lv struct {
	name, uuid string
	created    int64
	tags       []string
	extents    []at
	origin     *lv    // of a thick snapshot
	contents   string // the filesystem on it

	active        bool
	minor         int
	suspended     bool
	inactiveTable bool
	unmapped      int64 // extents at its end that the live table does not have yet
	opens         int
	claimed       bool // one of the opens is exclusive
}

func (v *vg) lv(name string) *lv {
	for _, l := range v.lvs {
		if l.name == name {
			return l
		}
	}
	return nil
}

func (v *vg) pv(name string) *pv {
	for _, p := range v.pvs {
		if p.name == name {
			return p
		}
	}
	return nil
}

// seen reports whether LVM finds the VG on any device.
func (v *vg) seen() bool { return slices.ContainsFunc(v.pvs, func(p *pv) bool { return !p.unplugged }) }

func (v *vg) partial() bool { return slices.ContainsFunc(v.pvs, (*pv).missing) }

func (l *lv) partial() bool {
	return slices.ContainsFunc(l.extents, func(a at) bool { return a.pv.missing() })
}

func (v *vg) snapshots(origin *lv) []*lv {
	var all []*lv
	for _, l := range v.lvs {
		if l.origin == origin {
			all = append(all, l)
		}
	}
	return all
}

// free counts the extents that an LV may be given.
func (v *vg) free() int64 {
	var n int64
	for _, p := range v.pvs {
		if p.allocatable {
			n += int64(len(p.extents)) - p.used()
		}
	}
	return n
}

func (p *pv) used() int64 {
	var n int64
	for _, e := range p.extents {
		if e.owner != nil {
			n++
		}
	}
	return n
}

// allocate gives l the first n free extents. The caller has made sure that there are so many.
func (v *vg) allocate(l *lv, n int64) {
	for _, p := range v.pvs {
		for i := range p.extents {
			if n == 0 || !p.allocatable {
				break
			}
			if p.extents[i].owner == nil {
				p.extents[i].owner = l
				l.extents = append(l.extents, at{p, i})
				n--
			}
		}
	}
}

// drop takes an LV out of the VG. Its extents keep what is written on them.
func (v *vg) drop(l *lv) {
	for _, a := range l.extents {
		a.pv.extents[a.n].owner = nil
	}
	v.lvs = slices.DeleteFunc(v.lvs, func(other *lv) bool { return other == l })
}

// segments counts the runs of extents that lie beside each other.
func (l *lv) segments() int {
	n := 0
	for i, a := range l.extents {
		if i == 0 || l.extents[i-1].pv != a.pv || l.extents[i-1].n+1 != a.n {
			n++
		}
	}
	return n
}

// The metadata area holds the VG as text twice, the old beside the new, behind a header of one
// sector; so a little less than half of it can be used. The sizes of the texts are those of
// LVM 2.03.16, nearly.
const (
	vgText      = 700
	pvText      = 300
	lvText      = 240
	segmentText = 120
)

func (v *vg) metadataMax() int64 { return (v.metadataSize-512)/2/512*512 - 512 }

func (v *vg) metadataUsed() int64 {
	n := int64(vgText + pvText*len(v.pvs))
	for _, l := range v.lvs {
		n += int64(lvText + len(l.name) + segmentText*l.segments())
		for _, tag := range l.tags {
			n += int64(len(tag) + len(`"", `))
		}
	}
	return n
}

// commit writes changed metadata: it counts the change, and PVs that are not there fall behind.
func (v *vg) commit() {
	v.seqno++
	for _, p := range v.pvs {
		if p.unplugged {
			p.outdated = true
		}
	}
}

// check compares what PVs and LVs say of each other.
func (v *vg) check() []error {
	var errs []error
	owned := map[at]*lv{}
	for _, l := range v.lvs {
		for _, a := range l.extents {
			if other := owned[a]; other != nil || a.pv.extents[a.n].owner != l {
				errs = append(errs, fmt.Errorf("extent %d of %s belongs to %s/%s and another", a.n, a.pv.name, v.name, l.name))
			}
			owned[a] = l
		}
	}
	for _, p := range v.pvs {
		for i, e := range p.extents {
			if e.owner != nil && owned[at{p, i}] != e.owner {
				errs = append(errs, fmt.Errorf("extent %d of %s belongs to no volume", i, p.name))
			}
		}
	}
	return errs
}
