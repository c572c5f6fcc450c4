package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// SystemVGs names the VGs under the root file system and the swap of this host: whoever fills one of them stops the
// node. It reads the mounts of process 1, so that it sees the host's root from within a container too (hostPID), and
// follows stacked devices (LUKS, RAID) down to the LVs below them.
func SystemVGs() ([]string, error) {
	table, err := os.Open("/proc/1/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for the root file system: %w", err)
	}
	defer table.Close()
	roots, err := mountinfo.GetMountsFromReader(table, mountinfo.SingleEntryFilter("/"))
	if err != nil {
		return nil, fmt.Errorf("looking for the root file system: %w", err)
	}
	var devices []string // "major:minor"
	for _, m := range roots {
		if m.Major != 0 {
			devices = append(devices, fmt.Sprintf("%d:%d", m.Major, m.Minor))
		} else if id, err := blockNumber(m.Source); err == nil { // btrfs
			devices = append(devices, id)
		}
	}
	swaps, err := swapsOf("/proc/swaps")
	if err != nil {
		return nil, fmt.Errorf("looking for swap: %w", err)
	}
	for _, name := range swaps {
		if id, err := blockNumber(name); err == nil {
			devices = append(devices, id)
		}
	}
	var vgs []string
	for _, d := range devices {
		vgs = append(vgs, vgsUnder("/sys/dev/block/"+d)...)
	}
	slices.Sort(vgs)
	return slices.Compact(vgs), nil
}

// swapsOf lists what is swapped to, by the kernel's table (proc_swaps(5)). A kernel without swap has none.
func swapsOf(table string) ([]string, error) {
	text, err := os.ReadFile(table)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "/") {
			names = append(names, name)
		}
	}
	return names, err
}

// ActiveVGs implements Mounter. It reads what sysfs says of all device-mapper devices.
func (l *Linux) ActiveVGs(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	devices, err := filepath.Glob(filepath.Join(l.sys, "block/dm-*"))
	var vgs []string
	for _, dir := range devices {
		vgs = append(vgs, vgAt(dir)...)
	}
	slices.Sort(vgs)
	return slices.Compact(vgs), err
}

// vgsUnder names the VGs of a device in sysfs and of all devices under it.
func vgsUnder(dir string) []string {
	vgs := vgAt(dir)
	below, _ := filepath.Glob(filepath.Join(dir, "slaves/*"))
	for _, slave := range below {
		vgs = append(vgs, vgsUnder(slave)...)
	}
	return vgs
}

// vgAt names the VG of a device in sysfs, if it is LVM's.
func vgAt(dir string) []string {
	uuid, err := readAttribute(filepath.Join(dir, "dm/uuid"))
	if err != nil || !strings.HasPrefix(uuid, "LVM-") {
		return nil
	}
	name, err := readAttribute(filepath.Join(dir, "dm/name"))
	if err != nil {
		return nil // it has just gone
	}
	return []string{vgOf(name)}
}

// vgOf is the VG's part of a device-mapper name: up to the first '-' that is not doubled, as "dmsetup splitname" has it. No name
// of an LV begins with '-'.
func vgOf(name string) string {
	for i := 0; i < len(name); i++ {
		if name[i] != '-' {
			continue
		}
		if i+1 < len(name) && name[i+1] == '-' {
			i++
			continue
		}
		name = name[:i]
		break
	}
	return strings.ReplaceAll(name, "--", "-")
}
