package lvmtest

import (
	"context"
	"fmt"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// What tests do to a node without lvm. A VG, PV or LV that is not there makes these methods panic: the test is wrong.

// VGOptions describe a VG to be made. The zero value of each is a healthy default.
type VGOptions struct {
	PVs          []int64 // usable sizes in bytes, rounded down to extents; by default one of 1 GiB
	ExtentSize   int64   // 4 MiB
	MetadataSize int64   // of each metadata area, 1020 KiB
	SystemID     string  // of another host
	Exported     bool
}

// AddVG makes a VG.
func (f *Fake) AddVG(name string, o VGOptions) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &vg{
		name: name, uuid: f.uuid(), extentSize: o.ExtentSize, metadataSize: o.MetadataSize, seqno: 1,
		systemID: o.SystemID, exported: o.Exported,
	}
	if v.extentSize == 0 {
		v.extentSize = 4 << 20
	}
	if v.metadataSize == 0 {
		v.metadataSize = 1020 << 10
	}
	if len(o.PVs) == 0 {
		o.PVs = []int64{1 << 30}
	}
	for _, size := range o.PVs {
		f.addPV(v, size)
	}
	f.vgs[name] = v
}

// AddPV gives a VG one more PV and returns its name.
func (f *Fake) AddPV(vg string, size int64, tags ...string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.addPV(f.vg(vg), size)
	p.tags = tags
	return p.name
}

func (f *Fake) addPV(v *vg, size int64) *pv {
	f.ids++
	p := &pv{name: fmt.Sprintf("/dev/fake%d", f.ids), uuid: f.uuid(), allocatable: true, extents: make([]extent, size/v.extentSize)}
	v.pvs = append(v.pvs, p)
	return p
}

// PVs lists the devices of a VG's PVs, also of those that are missing.
func (f *Fake) PVs(vg string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, p := range f.vg(vg).pvs {
		names = append(names, p.name)
	}
	return names
}

// SetMissing unplugs a PV, or plugs it in again. If the metadata changed meanwhile it stays missing, as with LVM.
// A PV that cannot be read looks the same to LVM, and a VG without any PV looks as if there were none.
func (f *Fake) SetMissing(vg, pv string, missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pv(vg, pv).unplugged = missing
}

// SetAllocatable is pvchange -x.
func (f *Fake) SetAllocatable(vg, pv string, allocatable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pv(vg, pv).allocatable = allocatable
}

// SetExported is vgexport or vgimport; it does not mind LVs that are active.
func (f *Fake) SetExported(vg string, exported bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vg(vg).exported = exported
}

// SetSystemID gives a VG to another host, or with "" back to this one.
func (f *Fake) SetSystemID(vg, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vg(vg).systemID = id
}

// AddForeignLV makes an active LV as somebody else would: with these tags, or none.
func (f *Fake) AddForeignLV(vg, name string, size int64, tags ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.vg(vg)
	l := f.newLV(name)
	l.tags = tags
	v.add(l, (size+v.extentSize-1)/v.extentSize)
}

// AddSnapshot makes a thick snapshot of an LV, with one extent.
func (f *Fake) AddSnapshot(vg, origin, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.newLV(name)
	l.origin = f.lv(vg, origin)
	f.vg(vg).add(l, 1)
}

// newLV is an active LV without extents.
func (f *Fake) newLV(name string) *lv {
	f.clock++
	l := &lv{name: name, uuid: f.uuid(), created: f.clock}
	f.activate(l)
	return l
}

// activate makes the device. A number is not used twice, so that a test notices who keeps one.
func (f *Fake) activate(l *lv) {
	if !l.active {
		f.minors++
		l.active, l.minor = true, f.minors
	}
}

func (v *vg) add(l *lv, extents int64) {
	if extents > v.free() {
		panic(fmt.Sprintf("lvmtest: no room for %s/%s", v.name, l.name))
	}
	v.lvs = append(v.lvs, l)
	v.allocate(l, extents)
	v.commit()
}

// SetSuspended suspends or resumes the device of an LV.
func (f *Fake) SetSuspended(vg, lv string, suspended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.device(vg, lv).suspended = suspended
}

// Strand leaves the device of an LV as an lvm does that is killed while it changes it: suspended, with an inactive table.
func (f *Fake) Strand(vg, lv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.device(vg, lv)
	l.suspended, l.inactiveTable = true, true
}

// Lag leaves the device of an LV without its last n extents, as an lvextend does that is killed after it has written the metadata.
func (f *Fake) Lag(vg, lv string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.device(vg, lv).unmapped = n
}

// LoadTable leaves an inactive table on the device of an LV, which works on.
func (f *Fake) LoadTable(vg, lv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.device(vg, lv).inactiveTable = true
}

// Deactivate removes the device of an LV that is not open.
func (f *Fake) Deactivate(vg, lv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.device(vg, lv)
	if l.opens > 0 {
		panic(fmt.Sprintf("lvmtest: %s/%s is open", vg, lv))
	}
	l.shut()
}

// Reboot leaves every LV inactive and nothing open.
func (f *Fake) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.vgs {
		for _, l := range v.lvs {
			l.shut()
		}
	}
}

func (l *lv) shut() {
	l.active, l.suspended, l.inactiveTable, l.claimed, l.opens, l.unmapped = false, false, false, false, 0, 0
}

// Report is what a report of the VG says now, without a command being counted.
func (f *Fake) Report(vg string) *lvm.VG {
	report, err := lvm.New(quiet{f}).Report(context.Background(), vg)
	if err != nil {
		panic("lvmtest: " + err.Error())
	}
	return report
}

// quiet runs commands without hook, locks and count.
type quiet struct{ f *Fake }

func (q quiet) Run(_ context.Context, args ...string) (lvm.Output, error) {
	cmd, fail := parse(args)
	if fail != nil {
		return *fail, nil
	}
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	return q.f.execute(cmd), nil
}

// uuid makes up a UUID of LVM's form.
func (f *Fake) uuid() string {
	f.ids++
	return fmt.Sprintf("fake00-0000-0000-0000-0000-0000-%06d", f.ids)
}

func (f *Fake) vg(name string) *vg {
	v := f.vgs[name]
	if v == nil {
		panic("lvmtest: no volume group " + name)
	}
	return v
}

func (f *Fake) pv(vg, name string) *pv {
	p := f.vg(vg).pv(name)
	if p == nil {
		panic(fmt.Sprintf("lvmtest: no PV %s in %s", name, vg))
	}
	return p
}

func (f *Fake) lv(vg, name string) *lv {
	l := f.vg(vg).lv(name)
	if l == nil {
		panic(fmt.Sprintf("lvmtest: no logical volume %s/%s", vg, name))
	}
	return l
}

func (f *Fake) device(vg, name string) *lv {
	l := f.lv(vg, name)
	if !l.active {
		panic(fmt.Sprintf("lvmtest: %s/%s is not active", vg, name))
	}
	return l
}
