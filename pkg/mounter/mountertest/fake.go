// Package mountertest is a mounter for tests: Fake, a node whose devices are those of
// lvmtest and whose mounts exist in memory only, and Contract, one suite of what
// mounter.Mounter promises that runs on the fake in every go test and on the kernel in a VM.
//
// It knows what the kernel, mkfs and fsck were seen to do. It refuses to know what callers make
// of them.
package mountertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// Fake is a mounter.Mounter over the LVs of an lvmtest.Fake. Which filesystem is on an LV is what
// lvmtest's Contents says, so tests may put any there. Mount points are ordinary files and directories, which the
// caller makes; mounting changes nothing in them. It needs no root and is safe for concurrent use.
type Fake struct {
	lvm *lvmtest.Fake

	mu      sync.Mutex // guards all below; taken before lvmtest's own lock, and never held while an operation is blocked
	volumes map[string]volume
	disks   map[string]*disk
	mounts  []*mount
	busy    map[string]bool
	hung    map[string]bool
	gates   map[string]*gate
	calls   []string
}

var _ mounter.Mounter = (*Fake)(nil)

// volume names an LV.
type volume struct{ vg, lv string }

// disk is what an LV holds, by the UUID of the LV: it outlasts activations.
type disk struct {
	fsSize     int64 // 0: as large as the device was when it was first looked at
	options    []string
	unreadable bool
	damaged    bool
	close      func() // gives back the exclusive open of the mounted filesystem
	uses       int    // mount points of the filesystem
}

// gate is where an operation waits for Block's release.
type gate struct {
	entered, released chan struct{}
	enter             func()
}

// New returns a node with the LVs of l and nothing mounted.
func New(l *lvmtest.Fake) *Fake {
	return &Fake{
		lvm: l, volumes: map[string]volume{}, disks: map[string]*disk{},
		busy: map[string]bool{}, hung: map[string]bool{}, gates: map[string]*gate{},
	}
}

// Calls lists the calls so far in order: the method, and the paths and words that it was given.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// SetUnreadable makes every read of an LV's device fail, until it is set to false.
func (f *Fake) SetUnreadable(vg, lv string, unreadable bool) {
	f.edit(vg, lv, func(d *disk) { d.unreadable = unreadable })
}

// SetDamaged makes Check find damage on an LV that it cannot repair.
func (f *Fake) SetDamaged(vg, lv string, damaged bool) {
	f.edit(vg, lv, func(d *disk) { d.damaged = damaged })
}

// MkfsOptions is what Format was given for the filesystem on an LV.
func (f *Fake) MkfsOptions(vg, lv string) (options []string) {
	f.edit(vg, lv, func(d *disk) { options = slices.Clone(d.options) })
	return options
}

// FilesystemSize is the size of the filesystem on an LV: its device's when it was made or last grown.
func (f *Fake) FilesystemSize(vg, lv string) (size int64) {
	f.edit(vg, lv, func(d *disk) { size = d.fsSize })
	return size
}

func (f *Fake) edit(vg, lv string, do func(*disk)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dev, ok := f.lvm.Device(vg, lv)
	if !ok {
		panic(fmt.Sprintf("mountertest: %s/%s is not active", vg, lv))
	}
	do(f.disk(dev))
}

// MountOptions is what Mount was given for the mount on top at path, or nil.
func (f *Fake) MountOptions(path string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.top(path); m != nil {
		return slices.Clone(m.options)
	}
	return nil
}

// SetBusy makes Unmount of path fail, as if a process had a file open there.
func (f *Fake) SetBusy(path string, busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[path] = busy
}

// SetHung makes Usage of path hang, as a filesystem does whose disk does not answer.
func (f *Fake) SetHung(path string, hung bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hung[path] = hung
}

// Block makes the next Format or Erase of an LV wait, with its device claimed and before anything is written, until
// release is called or its ctx ends. entered is closed when it has come that far. A test that ends
// early must still call release, which may be called more than once.
func (f *Fake) Block(method, vg, lv string) (entered <-chan struct{}, release func()) {
	g := &gate{entered: make(chan struct{}), released: make(chan struct{})}
	g.enter = sync.OnceFunc(func() { close(g.entered) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gates[method+" "+lvPath(vg, lv)] = g
	return g.entered, sync.OnceFunc(func() { close(g.released) })
}

// pass waits at the gate of an operation, if there is one.
func (f *Fake) pass(ctx context.Context, method, path string) error {
	key := method + " " + path
	f.mu.Lock()
	g := f.gates[key]
	delete(f.gates, key)
	f.mu.Unlock()
	if g == nil {
		return ctx.Err()
	}
	g.enter()
	select {
	case <-g.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reboot is a power cut: nothing is mounted and no LV is active, and what is on the LVs stays.
func (f *Fake) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mounts = nil
	for _, d := range f.disks {
		d.close, d.uses = nil, 0
	}
	clear(f.busy)
	clear(f.hung)
	f.lvm.Reboot()
}

func lvPath(vg, lv string) string { return "/dev/mapper/" + lvm.MapperName(vg, lv) }

func (f *Fake) note(words ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.Join(words, " "))
}

// lookup finds the LV of a device that Device returned, as long as it is still that one.
// The caller holds f.mu.
func (f *Fake) lookup(dev mounter.Device) (volume, *disk, error) {
	v, known := f.volumes[dev.Path]
	if !known {
		return v, nil, fmt.Errorf("mountertest: %s did not come from Device", dev.Path)
	}
	d, active := f.lvm.Device(v.vg, v.lv)
	switch {
	case !active || d.ID != dev.ID:
		return v, nil, fmt.Errorf("%s: %w", dev.Path, mounter.ErrInactive)
	case d.Suspended:
		return v, nil, fmt.Errorf("%s: %w", dev.Path, mounter.ErrSuspended)
	}
	return v, f.disk(d), nil
}

func (f *Fake) disk(d lvmtest.Device) *disk {
	if f.disks[d.UUID] == nil {
		f.disks[d.UUID] = &disk{fsSize: d.Size}
	}
	return f.disks[d.UUID]
}

// open opens a device exclusively.
func (f *Fake) open(v volume) (func(), error) {
	release, err := f.lvm.Open(v.vg, v.lv, true)
	switch {
	case errors.Is(err, lvmtest.ErrBusy):
		return nil, fmt.Errorf("%s: %w", lvPath(v.vg, v.lv), mounter.ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", lvPath(v.vg, v.lv), mounter.ErrInactive)
	}
	return release, nil
}

func readError(path string) error {
	return &os.PathError{Op: "read", Path: path, Err: errIO}
}
