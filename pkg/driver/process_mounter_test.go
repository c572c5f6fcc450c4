package driver

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// A process as the Mounter of its driver.

var _ mounter.Mounter = (*process)(nil)

// lvOfDevice finds the LV of a device by its name, in which these tests double no '-'.
func (p *process) lvOfDevice(dev mounter.Device) (vg, lv string) {
	vg, lv, _ = strings.Cut(strings.TrimPrefix(dev.Path, "/dev/mapper/"), "-")
	return vg, lv
}

// stateOf is the state that the tags of a device's LV say.
func (p *process) stateOf(dev mounter.Device) state {
	vg, name := p.lvOfDevice(dev)
	now, _ := p.w.lvm.Device(vg, name)
	r, _ := p.d.tags.read(&lvm.LV{Name: name, Tags: now.Tags})
	return r.state
}

// Device implements mounter.Mounter.
func (p *process) Device(ctx context.Context, vg, lv string) (dev mounter.Device, err error) {
	if e := p.take(step{name: "Device"}, func() { dev, err = p.w.mounter.Device(ctx, vg, lv) }, nil); e != nil {
		return mounter.Device{}, e
	}
	return dev, err
}

// ActiveVGs implements mounter.Mounter.
func (p *process) ActiveVGs(ctx context.Context) (vgs []string, err error) {
	if e := p.take(step{name: "ActiveVGs"}, func() { vgs, err = p.w.mounter.ActiveVGs(ctx) }, nil); e != nil {
		return nil, e
	}
	return vgs, err
}

// claim is a device that a process holds open.
type claim struct {
	io.Closer
	p *process
}

// Claim implements mounter.Mounter.
func (p *process) Claim(ctx context.Context, dev mounter.Device) (_ io.Closer, err error) {
	c := &claim{p: p}
	e := p.take(step{name: "Claim"}, func() {
		if c.Closer, err = p.w.mounter.Claim(ctx, dev); err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.claims[c] = true
		}
	}, nil)
	if err := errors.Join(e, err); err != nil {
		c.release() // a step that fails has nothing open
		return nil, err
	}
	return c, nil
}

func (c *claim) release() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.claims[c] {
		delete(c.p.claims, c)
		_ = c.Closer.Close()
	}
}

// Close implements io.Closer.
func (c *claim) Close() error {
	err := c.p.take(step{name: "Close"}, c.release, nil)
	c.release()
	return err
}

// Probe implements mounter.Mounter.
func (p *process) Probe(ctx context.Context, dev mounter.Device) (fs string, err error) {
	if e := p.take(step{name: "Probe"}, func() { fs, err = p.w.mounter.Probe(ctx, dev) }, nil); e != nil {
		return "", e
	}
	return fs, err
}

// Format implements mounter.Mounter. Only what was never handed out may be formatted.
func (p *process) Format(ctx context.Context, dev mounter.Device, fsType string, options []string) (err error) {
	torn := func(func()) {
		vg, lv := p.lvOfDevice(dev)
		p.w.lvm.SetContents(vg, lv, "half a "+fsType)
	}
	e := p.take(step{name: "Format", changes: true}, func() {
		s := p.stateOf(dev)
		p.rule(s == creating, "Format of a volume in state %q", s)
		err = p.w.mounter.Format(ctx, dev, fsType, options)
	}, func() []way { return []way{{"torn", torn}} })
	return errors.Join(e, err)
}

// Check implements mounter.Mounter.
func (p *process) Check(ctx context.Context, dev mounter.Device, fsType string) (err error) {
	e := p.take(step{name: "Check"}, func() { err = p.w.mounter.Check(ctx, dev, fsType) }, nil)
	return errors.Join(e, err)
}

// Grow implements mounter.Mounter.
func (p *process) Grow(ctx context.Context, dev mounter.Device, fsType, path string) (err error) {
	e := p.take(step{name: "Grow", changes: true}, func() { err = p.w.mounter.Grow(ctx, dev, fsType, path) }, nil)
	return errors.Join(e, err)
}

// Erase implements mounter.Mounter. Only what can never be mounted again may be erased, unless no tag can be written any more.
func (p *process) Erase(ctx context.Context, dev mounter.Device, how mounter.Erase) (err error) {
	torn := func(func()) {
		vg, lv := p.lvOfDevice(dev)
		p.w.lvm.SetContents(vg, lv, "")
		p.w.lvm.Stain(vg, lv, "half of the "+secret)
	}
	e := p.take(step{name: "Erase", changes: true}, func() {
		s := p.stateOf(dev)
		p.rule(s == deleting || p.w.lvm.Report("vg0").MDAFree == 0, "Erase of a volume in state %q", s)
		err = p.w.mounter.Erase(ctx, dev, how)
	}, func() []way { return []way{{"torn", torn}} })
	return errors.Join(e, err)
}

// Mounts implements mounter.Mounter.
func (p *process) Mounts(ctx context.Context) (all []mounter.Mount, err error) {
	if e := p.take(step{name: "Mounts"}, func() { all, err = p.w.mounter.Mounts(ctx) }, nil); e != nil {
		return nil, e
	}
	return all, err
}

// Mount implements mounter.Mounter. What is unfinished, or being erased, is never mounted.
func (p *process) Mount(ctx context.Context, dev mounter.Device, fsType, path string, options []string) (err error) {
	e := p.take(step{name: "Mount", changes: true}, func() {
		s := p.stateOf(dev)
		p.rule(s == ready, "Mount of a volume in state %q", s)
		err = p.w.mounter.Mount(ctx, dev, fsType, path, options)
	}, nil)
	return errors.Join(e, err)
}

// Bind implements mounter.Mounter.
func (p *process) Bind(ctx context.Context, source, path string, readOnly bool) (err error) {
	e := p.take(step{name: "Bind", changes: true}, func() { err = p.w.mounter.Bind(ctx, source, path, readOnly) }, nil)
	return errors.Join(e, err)
}

// Unmount implements mounter.Mounter.
func (p *process) Unmount(ctx context.Context, path string) (err error) {
	e := p.take(step{name: "Unmount", changes: true}, func() { err = p.w.mounter.Unmount(ctx, path) }, nil)
	return errors.Join(e, err)
}

// Usage implements mounter.Mounter.
func (p *process) Usage(ctx context.Context, path string) (u mounter.Usage, err error) {
	if e := p.take(step{name: "Usage"}, func() { u, err = p.w.mounter.Usage(ctx, path) }, nil); e != nil {
		return mounter.Usage{}, e
	}
	return u, err
}
