package lvmtest

import (
	"fmt"
	"slices"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// execute has a command done at once. The caller holds f.mu.
func (f *Fake) execute(c command) lvm.Output {
	switch c.name {
	case "fullreport":
		return f.fullReport(c)
	case "dmsetup":
		return f.dmsetup(c)
	}
	v := f.vgs[c.vg]
	a := &answer{selects: c.has("-S"), vg: c.vg, lv: c.lv}
	switch {
	case v == nil || !v.seen():
		out := noVG(c.vg)
		a.out.Log = out.Log
		a.failed()
	case v.systemID != "":
		a.out.Log = foreign(v).Log
		a.failed()
	case v.exported && c.name != "vgcfgbackup":
		a.fail("Volume group %s is exported", v.name)
	default:
		a.out.Log = missingWarnings(v)
		f.change(c, v, a)
	}
	return a.finish()
}

// change does one change of a VG that LVM can read.
func (f *Fake) change(c command, v *vg, a *answer) {
	l := v.lv(c.lv)
	switch c.name {
	case "lvcreate":
		f.lvcreate(c, v, a)
	case "lvextend":
		lvextend(c, v, l, a)
	case "lvchange":
		switch {
		case l == nil:
			a.fail("Failed to find logical volume \"%s/%s\"", v.name, c.lv)
		case c.has("-a"):
			f.activation(c.value("-a"), v, l, a)
		case c.has("--refresh"):
			refresh(v, l, a)
		case c.has("--addtag") || c.has("--deltag"):
			retag(c, v, l, a)
		default:
			a.out = *usage("No command with matching syntax recognised.")
		}
	case "lvremove":
		lvremove(c, v, l, a)
	case "vgcfgbackup":
		a.print("Volume group %q successfully backed up.", v.name)
	}
}

func (f *Fake) lvcreate(c command, v *vg, a *answer) {
	name := c.value("-n")
	size, _ := bytesOf(c.value("-L"))
	n := (size + v.extentSize - 1) / v.extentSize
	switch {
	case v.partial():
		a.refusePartial(v)
		return
	case size >= 1<<54:
		a.fail("Volume too large (%s) for extent size %s. Upper limit is less than <16.00 PiB.", human(size), human(v.extentSize))
		return
	}
	if size%v.extentSize != 0 {
		a.print("Rounding up size to full physical extent %s", human(n*v.extentSize))
	}
	switch {
	case v.lv(name) != nil:
		a.fail("Logical Volume %q already exists in volume group %q", name, v.name)
		return
	case n > v.free():
		a.fail("Volume group %q has insufficient free space (%d extents): %d required.", v.name, v.free(), n)
		return
	}
	l := &lv{name: name, uuid: f.uuid(), tags: c.values("--addtag")}
	v.lvs = append(v.lvs, l)
	v.allocate(l, n)
	if !a.commit(v) {
		v.drop(l)
		return
	}
	f.clock++
	l.created = f.clock
	f.activate(l)
	a.print("Logical volume %q created.", name)
}

func lvextend(c command, v *vg, l *lv, a *answer) {
	size, _ := bytesOf(c.value("-L"))
	n := int64(uint32((size + v.extentSize - 1) / v.extentSize)) // LVM counts in 32 bits, without noticing more
	switch {
	case v.partial():
		a.refusePartial(v)
		return
	case n == 0:
		a.fail("New size of 0 not permitted.")
		return
	case l == nil:
		a.fail("Logical volume %s not found in volume group %s.", c.lv, v.name)
		return
	}
	if size%v.extentSize != 0 {
		a.print("Rounding size to boundary between physical extents: %s.", human(n*v.extentSize))
	}
	has := int64(len(l.extents))
	switch {
	case n == has:
		a.fail("New size (%d extents) matches existing size (%d extents).", n, has)
		return
	case n < has:
		a.fail("New size given (%d extents) not larger than existing size (%d extents)", n, has)
		return
	case l.active && len(v.snapshots(l)) > 0:
		a.fail("Snapshot origin volumes can be resized only while inactive: try lvchange -an.")
		return
	case n-has > v.free():
		a.fail("Insufficient free space: %d extents needed, but only %d available", n-has, v.free())
		return
	}
	v.allocate(l, n-has)
	if !a.commit(v) {
		for _, e := range l.extents[has:] {
			e.pv.extents[e.n].owner = nil
		}
		l.extents = l.extents[:has]
		return
	}
	l.suspended, l.inactiveTable, l.unmapped = false, false, 0 // the new table is made live
	a.print("Size of logical volume %s/%s changed from %s (%d extents) to %s (%d extents).",
		v.name, l.name, human(has*v.extentSize), has, human(n*v.extentSize), n)
	a.print("Logical volume %s/%s successfully resized.", v.name, l.name)
}

func (f *Fake) activation(on string, v *vg, l *lv, a *answer) {
	switch {
	case on == "y" && l.partial() && !l.active:
		a.fail("Refusing activation of partial LV %s/%s.  Use '--activationmode partial' to override.", v.name, l.name)
	case on == "y":
		f.activate(l)
	case l.opens > 0:
		a.fail("Logical volume %s/%s in use.", v.name, l.name)
	default:
		l.shut()
	}
}

// refresh loads the table that the metadata describes, in place of whatever was loaded, and resumes.
func refresh(v *vg, l *lv, a *answer) {
	if l.partial() {
		a.fail("Refusing refresh of partial LV %s/%s. Use '--activationmode partial' to override.", v.name, l.name)
		return
	}
	l.suspended, l.inactiveTable, l.unmapped = false, false, 0
}

func retag(c command, v *vg, l *lv, a *answer) {
	old := l.tags
	for _, tag := range c.values("--addtag") {
		if !slices.Contains(l.tags, tag) {
			l.tags = append(slices.Clone(l.tags), tag)
		}
	}
	for _, tag := range c.values("--deltag") {
		l.tags = slices.DeleteFunc(slices.Clone(l.tags), func(t string) bool { return t == tag })
	}
	if !a.commit(v) {
		l.tags = old
		a.fail("Failed to update metadata of %s/%s on disk.", v.name, l.name)
		return
	}
	a.print("Logical volume %s/%s changed.", v.name, l.name)
}

// lvremove removes an LV with the thick snapshots that it is the origin of. It
// does so also if the LV is on a missing PV.
func lvremove(c command, v *vg, l *lv, a *answer) {
	var doomed []*lv
	switch {
	case c.has("-S"):
		var ok bool
		if doomed, ok = v.selected(c.value("-S")); !ok {
			a.fail("Selection syntax error at '%s'.", c.value("-S"))
			return
		}
	case l == nil:
		a.fail("Failed to find logical volume \"%s/%s\"", v.name, c.lv)
		return
	default:
		doomed = []*lv{l}
	}
	for _, l := range doomed {
		for _, l := range append(v.snapshots(l), l) {
			if v.lv(l.name) == nil {
				continue // with its origin, just now
			}
			if l.opens > 0 {
				a.fail("Logical volume %s/%s in use.", v.name, l.name)
				break
			}
			v.drop(l)
			a.commit(v) // less metadata always fits
			a.print("Logical volume %q successfully removed.", l.name)
		}
	}
}

// dmsetup is "dmsetup clear NAME" and "dmsetup resume NAME".
func (f *Fake) dmsetup(c command) lvm.Output {
	_, l := f.find(c.vg, c.lv)
	verb := c.options[0].flag
	switch {
	case l == nil || !l.active:
		return lvm.Output{Code: 1, Log: plain(
			fmt.Sprintf("device-mapper: %s ioctl on %s  failed: No such device or address", verb, lvm.MapperName(c.vg, c.lv)), "Command failed.")}
	case verb == "clear":
		l.inactiveTable = false
	default:
		l.suspended = false
	}
	return lvm.Output{}
}
