package mountertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// mount is one entry of the mount table.
type mount struct {
	mounter.Mount
	options []string
	disk    *disk
}

// top is the mount that one sees at path. The caller holds f.mu.
func (f *Fake) top(path string) *mount {
	for _, m := range slices.Backward(f.mounts) {
		if m.Path == filepath.Clean(path) {
			return m
		}
	}
	return nil
}

// Mounts implements mounter.Mounter.
func (f *Fake) Mounts(ctx context.Context) ([]mounter.Mount, error) {
	f.note("Mounts")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []mounter.Mount
	for _, m := range f.mounts {
		all = append(all, m.Mount)
	}
	return all, nil
}

// Mount implements mounter.Mounter.
func (f *Fake) Mount(ctx context.Context, dev mounter.Device, fsType, path string, options []string) error {
	f.note(append([]string{"Mount", dev.Path, fsType, path}, options...)...)
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mount(dev, fsType, filepath.Clean(path), options); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", dev.Path, path, err)
	}
	return nil
}

func (f *Fake) mount(dev mounter.Device, fsType, path string, options []string) error {
	v, d, err := f.lookup(dev)
	if err != nil {
		return err
	}
	if err := target(path, true); err != nil {
		return err
	}
	found, err := f.probe(dev)
	switch {
	case err != nil:
		return err
	case found != fsType || smallest[fsType] == 0:
		return fmt.Errorf("mount exited with 32: wrong fs type, it holds %q and not %q", found, fsType)
	}
	if m := f.top(path); m != nil && m.disk == d && !m.Block {
		return mounter.ErrInUse // the kernel refuses the same filesystem twice at one place, except by bind
	}
	if d.uses == 0 {
		if d.close, err = f.open(v); err != nil {
			return err
		}
	}
	d.uses++
	f.mounts = append(f.mounts, &mount{
		Mount:   mounter.Mount{Path: path, DeviceID: dev.ID, FSType: fsType, ReadOnly: slices.Contains(options, "ro")},
		options: slices.Clone(options), disk: d,
	})
	return nil
}

// target makes sure that path exists and is of the kind on which something can be mounted.
func target(path string, dir bool) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", path)
	case info.IsDir() != dir:
		return fmt.Errorf("%s is of the wrong kind (a directory: %t)", path, info.IsDir())
	}
	return nil
}

// Bind implements mounter.Mounter.
func (f *Fake) Bind(ctx context.Context, source, path string, readOnly bool) error {
	f.note("Bind", source, path, fmt.Sprint(readOnly))
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.bind(source, filepath.Clean(path), readOnly); err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, path, err)
	}
	return nil
}

func (f *Fake) bind(source, path string, readOnly bool) error {
	var m mount
	if from := f.top(source); from != nil {
		m = *from
	} else if v, known := f.volumes[source]; known {
		dev, active := f.lvm.Device(v.vg, v.lv)
		if !active {
			return os.ErrNotExist
		}
		m = mount{Mount: mounter.Mount{DeviceID: dev.ID, Block: true}}
	} else {
		return fmt.Errorf("mountertest: the source is neither a mount point nor a device")
	}
	if err := target(path, !m.Block); err != nil {
		return err
	}
	m.Path, m.ReadOnly, m.options = path, m.ReadOnly || readOnly, nil
	if m.disk != nil {
		m.disk.uses++ // a bound device node is not an open device
	}
	f.mounts = append(f.mounts, &m)
	return nil
}

// Unmount implements mounter.Mounter.
func (f *Fake) Unmount(ctx context.Context, path string) error {
	f.note("Unmount", path)
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.top(path)
	switch {
	case m == nil:
		return fmt.Errorf("unmounting %s: %w", path, mounter.ErrNotMounted)
	case f.busy[filepath.Clean(path)]:
		return fmt.Errorf("unmounting %s: %w", path, mounter.ErrInUse)
	}
	f.mounts = slices.DeleteFunc(f.mounts, func(other *mount) bool { return other == m })
	if m.disk == nil {
		return nil
	}
	if m.disk.uses--; m.disk.uses == 0 {
		m.disk.close()
		m.disk.close = nil
	}
	return nil
}

// Usage implements mounter.Mounter.
func (f *Fake) Usage(ctx context.Context, path string) (mounter.Usage, error) {
	f.note("Usage", path)
	f.mu.Lock()
	m, hung := f.top(path), f.hung[filepath.Clean(path)]
	var size int64
	if m != nil && m.disk != nil {
		size = m.disk.fsSize
	}
	f.mu.Unlock()
	switch {
	case hung:
		<-ctx.Done()
		return mounter.Usage{}, ctx.Err()
	case ctx.Err() != nil:
		return mounter.Usage{}, ctx.Err()
	case size == 0:
		return mounter.Usage{}, fmt.Errorf("measuring %s: %w", path, mounter.ErrNotMounted)
	}
	u := mounter.Usage{Bytes: size - size/16, BytesUsed: size / 64}
	u.BytesAvailable = u.Bytes - u.BytesUsed
	if m.FSType != "btrfs" {
		u.Inodes, u.InodesUsed = size/16384, 11
		u.InodesAvailable = u.Inodes - u.InodesUsed
	}
	return u, nil
}
