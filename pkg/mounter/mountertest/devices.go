package mountertest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

const errIO = syscall.EIO

// The smallest devices on which mkfs makes a filesystem at all.
var smallest = map[string]int64{"ext4": 256 << 10, "xfs": 300 << 20, "btrfs": 109 << 20}

// Device implements mounter.Mounter.
func (f *Fake) Device(ctx context.Context, vg, lv string) (mounter.Device, error) {
	path := lvPath(vg, lv)
	f.note("Device", path)
	if err := ctx.Err(); err != nil {
		return mounter.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d, active := f.lvm.Device(vg, lv)
	switch {
	case !active:
		return mounter.Device{}, fmt.Errorf("%s: %w", path, mounter.ErrInactive)
	case d.Suspended:
		return mounter.Device{}, fmt.Errorf("%s: %w", path, mounter.ErrSuspended)
	}
	f.volumes[path] = volume{vg, lv}
	return mounter.Device{Path: path, ID: d.ID, UUID: d.UUID, Size: d.Size}, nil
}

// ActiveVGs implements mounter.Mounter.
func (f *Fake) ActiveVGs(ctx context.Context) ([]string, error) {
	f.note("ActiveVGs")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.lvm.ActiveVGs(), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// Claim implements mounter.Mounter.
func (f *Fake) Claim(ctx context.Context, dev mounter.Device) (io.Closer, error) {
	f.note("Claim", dev.Path)
	_, release, err := f.claim(ctx, dev)
	if err != nil {
		return nil, err
	}
	return closer(release), nil
}

// claim opens a device that can be read.
func (f *Fake) claim(ctx context.Context, dev mounter.Device) (volume, func(), error) {
	if err := ctx.Err(); err != nil {
		return volume{}, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v, d, err := f.lookup(dev)
	if err != nil {
		return v, nil, err
	}
	release, err := f.open(v)
	if err == nil && d.unreadable {
		release()
		return v, nil, readError(dev.Path)
	}
	return v, release, err
}

// Probe implements mounter.Mounter.
func (f *Fake) Probe(ctx context.Context, dev mounter.Device) (string, error) {
	f.note("Probe", dev.Path)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probe(dev)
}

func (f *Fake) probe(dev mounter.Device) (string, error) {
	v, d, err := f.lookup(dev)
	switch {
	case err != nil:
		return "", err
	case d.unreadable:
		return "", readError(dev.Path)
	}
	contents := f.lvm.Contents(v.vg, v.lv)
	if slices.Contains([]string{"dos", "gpt"}, contents) || strings.HasSuffix(contents, "_member") {
		return "", nil // a partition table, or a signature of RAID or LVM
	}
	return contents, nil
}

// Format implements mounter.Mounter. It refuses options that contain "--bad".
func (f *Fake) Format(ctx context.Context, dev mounter.Device, fsType string, options []string) error {
	f.note(append([]string{"Format", dev.Path, fsType}, options...)...)
	v, release, err := f.claim(ctx, dev)
	if err != nil {
		return fmt.Errorf("making %s on %s: %w", fsType, dev.Path, err)
	}
	defer release()
	if err := f.pass(ctx, "Format", dev.Path); err != nil {
		return err
	}
	least, known := smallest[fsType]
	switch {
	case !known:
		return fmt.Errorf("no mkfs for filesystem %q", fsType)
	case slices.ContainsFunc(options, func(o string) bool { return strings.Contains(o, "--bad") }):
		return fmt.Errorf("%w: mkfs.%s exited with 1: unrecognized option '--bad'", mounter.ErrBadOptions, fsType)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, d, err := f.lookup(dev)
	if err != nil {
		return err
	}
	now, _ := f.lvm.Device(v.vg, v.lv)
	if now.Size < least {
		return fmt.Errorf("mkfs.%s exited with 1: %s is too small", fsType, dev.Path)
	}
	f.lvm.SetContents(v.vg, v.lv, fsType)
	d.fsSize, d.options, d.damaged = now.Size, slices.Clone(options), false
	return nil
}

// Check implements mounter.Mounter.
func (f *Fake) Check(ctx context.Context, dev mounter.Device, fsType string) error {
	f.note("Check", dev.Path, fsType)
	_, release, err := f.claim(ctx, dev)
	if err != nil {
		return fmt.Errorf("checking %s: %w", dev.Path, err)
	}
	defer release()
	f.mu.Lock()
	defer f.mu.Unlock()
	_, d, err := f.lookup(dev)
	if err == nil && d.damaged {
		err = fmt.Errorf("%s on %s is damaged: repair it by hand", fsType, dev.Path)
	}
	return err
}

// Grow implements mounter.Mounter.
func (f *Fake) Grow(ctx context.Context, dev mounter.Device, fsType, path string) error {
	f.note("Grow", dev.Path, fsType, path)
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v, d, err := f.lookup(dev)
	m := f.top(path)
	switch {
	case err != nil:
		return fmt.Errorf("growing %s on %s: %w", fsType, dev.Path, err)
	case m == nil || m.Block || m.DeviceID != dev.ID || m.FSType != fsType:
		return fmt.Errorf("growing %s on %s: it is not mounted at %s", fsType, dev.Path, path)
	case d.unreadable:
		return readError(dev.Path)
	}
	now, _ := f.lvm.Device(v.vg, v.lv)
	if m.ReadOnly && now.Size > d.fsSize {
		return fmt.Errorf("growing %s on %s: it is mounted read-only", fsType, dev.Path)
	}
	d.fsSize = max(d.fsSize, now.Size)
	return nil
}

// Erase implements mounter.Mounter.
func (f *Fake) Erase(ctx context.Context, dev mounter.Device, how mounter.Erase) error {
	f.note("Erase", dev.Path, string(how))
	switch how {
	case mounter.EraseNone:
		return nil
	case mounter.EraseZero, mounter.EraseDiscard:
	default:
		return fmt.Errorf("no way %q to erase", how)
	}
	v, release, err := f.claim(ctx, dev)
	if err != nil {
		return fmt.Errorf("erasing %s: %w", dev.Path, err)
	}
	defer release()
	if err := f.pass(ctx, "Erase", dev.Path); err != nil {
		return fmt.Errorf("erasing %s: %w", dev.Path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, _, err := f.lookup(dev); err != nil {
		return err
	}
	f.lvm.Erase(v.vg, v.lv)
	return nil
}
