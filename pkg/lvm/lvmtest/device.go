package lvmtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// Errors of Open.
var (
	ErrNoDevice = errors.New("no such device") // the LV is not active, or not there
	ErrBusy     = errors.New("device or resource busy")
)

// Device is the device-mapper device of an active LV.
type Device struct {
	ID            string   // "253:4"; another one after each activation
	UUID          string   // the LV's (lvm.MapperUUID): what is on the disk is its, whatever its device
	Tags          []string // the LV's
	Size          int64
	Suspended     bool
	InactiveTable bool
	Opens         int
}

// Device finds the device of an LV; false if it is not active or not there.
func (f *Fake) Device(vg, lv string) (Device, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, l := f.find(vg, lv)
	if l == nil || !l.active {
		return Device{}, false
	}
	return Device{
		ID: l.id(), UUID: lvm.MapperUUID(v.uuid, l.uuid), Tags: slices.Clone(l.tags), Size: (int64(len(l.extents)) - l.unmapped) * v.extentSize,
		Suspended: l.suspended, InactiveTable: l.inactiveTable, Opens: l.opens,
	}, true
}

// ActiveVGs names the VGs that have active LVs, sorted.
func (f *Fake) ActiveVGs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, v := range f.sorted() {
		if slices.ContainsFunc(v.lvs, func(l *lv) bool { return l.active }) {
			names = append(names, v.name)
		}
	}
	return names
}

// major is device-mapper's block device number, as seen on most nodes.
const major = 253

func (l *lv) id() string { return fmt.Sprintf("%d:%d", major, l.minor) }

func (f *Fake) find(vg, lv string) (*vg, *lv) {
	if v := f.vgs[vg]; v != nil {
		return v, v.lv(lv)
	}
	return nil, nil
}

// Open opens the device of an active LV until close, which may be called more than once. An exclusive
// open (a mount, O_EXCL) fails while there is another exclusive one; a plain one does not. LVM
// sees either as open. Errors: ErrNoDevice, ErrBusy.
func (f *Fake) Open(vg, lv string, exclusive bool) (close func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, l := f.find(vg, lv)
	if l == nil || !l.active {
		return nil, ErrNoDevice
	}
	if exclusive && l.claimed {
		return nil, ErrBusy
	}
	l.opens++
	l.claimed = l.claimed || exclusive
	minor := l.minor
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !l.active || l.minor != minor {
			return // a reboot closed it
		}
		l.opens--
		if exclusive {
			l.claimed = false
		}
	}), nil
}

// SetOpen makes the device of an LV open n times, by somebody else who mounted it if n is
// not 0. Opens by Open are forgotten: use one or the other.
func (f *Fake) SetOpen(vg, lv string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.device(vg, lv)
	l.opens, l.claimed = n, n > 0
}

// SetContents puts a filesystem, named by any string, on an LV. It lasts until Erase or until the LV is removed.
func (f *Fake) SetContents(vg, lv, contents string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lv(vg, lv).contents = contents
}

// Contents is what SetContents put there, and "" for a new or an erased LV.
func (f *Fake) Contents(vg, lv string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lv(vg, lv).contents
}

// Stain writes s all over an LV. Each of its extents keeps it, whoever owns it later, until it is erased.
func (f *Fake) Stain(vg, lv, s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lv(vg, lv).stain(s)
}

func (l *lv) stain(s string) {
	for _, a := range l.extents {
		a.pv.extents[a.n].stain = s
	}
}

// Stains lists what can be read from the extents of an LV, each once, sorted.
func (f *Fake) Stains(vg, lv string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, a := range f.lv(vg, lv).extents {
		if s := a.pv.extents[a.n].stain; s != "" {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Erase clears the contents and every extent of an LV.
func (f *Fake) Erase(vg, lv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lv(vg, lv)
	l.contents = ""
	l.stain("")
}
