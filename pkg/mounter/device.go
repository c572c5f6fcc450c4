package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// How long a device node may lag the device that the kernel already has: udev makes nodes, and it may be busy.
const (
	nodePatience = 5 * time.Second
	nodePause    = 20 * time.Millisecond
)

// errNoNode: there is no node of that name, or still the one of an earlier device.
var errNoNode = errors.New("no device node")

// Device implements Mounter. It looks at the node's number and at what sysfs says of the device of that number
// (Documentation/ABI/testing/sysfs-block-dm); neither opens the device.
func (l *Linux) Device(ctx context.Context, vg, lv string) (Device, error) {
	if strings.Contains(vg+lv, "/") {
		return Device{}, fmt.Errorf("%q/%q is no name of a volume: %w", vg, lv, ErrInactive)
	}
	name := lvm.MapperName(vg, lv)
	for start := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return Device{}, err
		}
		dev, err := l.device(name)
		if !errors.Is(err, errNoNode) {
			return dev, err
		}
		if !l.mapped(name) {
			return Device{}, fmt.Errorf("%s/%s: %w", vg, lv, ErrInactive)
		}
		if time.Since(start) > nodePatience {
			return Device{}, fmt.Errorf("%s: %w: the kernel has a device of that name", filepath.Join(l.mapper, name), err)
		}
		if err := sleep(ctx, nodePause); err != nil {
			return Device{}, err
		}
	}
}

func (l *Linux) device(name string) (Device, error) {
	path := filepath.Join(l.mapper, name)
	id, err := l.number(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Device{}, errNoNode
	case err != nil:
		return Device{}, err
	}
	base := filepath.Join(l.sys, "dev/block", id)
	var got [4]string
	for i, attribute := range []string{"dm/name", "dm/uuid", "dm/suspended", "size"} {
		got[i], err = readAttribute(filepath.Join(base, attribute))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return Device{}, errNoNode // not device-mapper's, or removed since: the node is of a device that is gone
		case err != nil:
			return Device{}, err
		}
	}
	sectors, err := strconv.ParseInt(got[3], 10, 64)
	switch {
	case got[0] != name:
		return Device{}, errNoNode
	case sectors == 0 && err == nil:
		return Device{}, fmt.Errorf("%s has no table: %w", path, ErrInactive)
	case !strings.HasPrefix(got[1], "LVM-"):
		return Device{}, fmt.Errorf("%s is a device-mapper device, but not LVM's: its UUID is %q", path, got[1])
	case got[2] != "0":
		return Device{}, fmt.Errorf("%s: %w", path, ErrSuspended)
	case err != nil:
		return Device{}, fmt.Errorf("size of %s: %w", path, err)
	}
	return Device{Path: path, ID: id, UUID: got[1], Size: sectors * 512}, nil // sysfs counts in 512 bytes, whatever the disk's sectors are
}

// mapped tells whether the kernel has a device-mapper device of that name, with a table. One without, of size 0, is what
// an lvcreate leaves that is killed before it loads the table; before Linux 5.15 udev hears nothing of it and makes no node.
func (l *Linux) mapped(name string) bool {
	all, _ := filepath.Glob(filepath.Join(l.sys, "block/dm-*"))
	for _, dir := range all {
		if got, err := readAttribute(filepath.Join(dir, "dm/name")); err == nil && got == name {
			size, err := readAttribute(filepath.Join(dir, "size"))
			return err == nil && size != "0"
		}
	}
	return false
}

// still makes sure, for tools that open the device themselves, that its node is the one that was found.
// Errors: ErrInactive, ErrSuspended.
func (l *Linux) still(dev Device) error {
	switch id, err := l.number(dev.Path); {
	case errors.Is(err, os.ErrNotExist), err == nil && id != dev.ID:
		return fmt.Errorf("%s: %w", dev.Path, ErrInactive)
	case err != nil:
		return err
	case l.suspended(id):
		return fmt.Errorf("%s: %w", dev.Path, ErrSuspended)
	}
	return nil
}

// suspended tells whether the device of that number waits for its table to be changed.
func (l *Linux) suspended(id string) bool {
	s, err := readAttribute(filepath.Join(l.sys, "dev/block", id, "dm/suspended"))
	return err == nil && s == "1"
}

func readAttribute(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSuffix(string(data), "\n"), err
}
