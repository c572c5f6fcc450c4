// Package node is a real node for tests, the benchmark and the demonstration: volume groups on loop devices, a driver over them, and
// a CSI client that speaks to it as kubelet and external-provisioner do. It needs root and device-mapper.
//
// It knows the programs of a Linux host. It refuses to know the driver's inside: what it checks, it sees by LVM, the
// kernel and CSI.
package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Run runs a program and returns what it printed. The error holds what it complained.
func Run(words ...string) (string, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_SUPPRESS_FD_WARNINGS=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

// VG is a volume group on loop devices over sparse files.
type VG struct {
	Name  string
	Loops []string // device nodes, one for each PV
	slow  []string // device-mapper names over them
	files []string
}

// NewVG makes a VG with PVs of the given sizes in bytes, whose files are in dir. options go to pvcreate.
func NewVG(dir, name string, pvs []int64, options ...string) (*VG, error) {
	vg := &VG{Name: name}
	if err := vg.addLoops(dir, pvs); err != nil {
		return vg, err
	}
	return vg, vg.make(vg.Loops, options)
}

// NewSlowVG makes a VG with one PV on which each write takes at least the given number of milliseconds.
func NewSlowVG(dir, name string, size int64, milliseconds int) (*VG, error) {
	vg := &VG{Name: name}
	if err := vg.addLoops(dir, []int64{size}); err != nil {
		return vg, err
	}
	// From an offset: at its beginning LVM would see the PV's label on the loop device as well.
	const offset = 2048
	table := fmt.Sprintf("0 %d delay %s %d 0 %s %d %d", size/512-offset, vg.Loops[0], offset, vg.Loops[0], offset, milliseconds)
	if _, err := Run("dmsetup", "create", name+"slow", "--table", table); err != nil {
		return vg, err
	}
	vg.slow = []string{name + "slow"}
	return vg, vg.make([]string{"/dev/mapper/" + name + "slow"}, nil)
}

func (vg *VG) addLoops(dir string, sizes []int64) error {
	for i, size := range sizes {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.img", vg.Name, i))
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		vg.files = append(vg.files, file)
		if err := os.Truncate(file, size); err != nil {
			return err
		}
		loop, err := Run("losetup", "--find", "--show", file)
		if err != nil {
			return err
		}
		vg.Loops = append(vg.Loops, loop)
	}
	return nil
}

func (vg *VG) make(devices, options []string) error {
	if _, err := Run(slices.Concat([]string{"pvcreate", "-qq"}, options, devices)...); err != nil {
		return err
	}
	_, err := Run(append([]string{"vgcreate", "-qq", vg.Name}, devices...)...)
	return err
}

// Remove removes the VG with all it holds.
func (vg *VG) Remove() error {
	_, err := Run("vgremove", "-qq", "-f", "-y", vg.Name)
	for _, name := range vg.slow {
		_, e := Run("dmsetup", "remove", "--retry", name)
		err = errors.Join(err, e)
	}
	for _, loop := range vg.Loops {
		_, e := Run("losetup", "-d", loop)
		err = errors.Join(err, e)
	}
	for _, file := range vg.files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// LVs is a report of the VG's LVs, hidden ones too: the fields by LV name.
func (vg *VG) LVs(fields string) (map[string]map[string]string, error) {
	out, err := Run("lvs", "-a", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", "lv_name,"+fields, vg.Name)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Report []struct{ LV []map[string]string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return nil, err
	}
	lvs := map[string]map[string]string{}
	for _, report := range answer.Report {
		for _, lv := range report.LV {
			lvs[lv["lv_name"]] = lv
		}
	}
	return lvs, nil
}

// CheckTables compares what the kernel maps with what LVM says, for the linear LVs of the VG: no device is suspended, none has
// a table that waits to be made live, and each maps just the extents that are its own. It is how a stale
// mapping shows, which LVM's own report cannot see.
func (vg *VG) CheckTables() error {
	lvs, err := vg.LVs("lv_active,lv_suspended,lv_inactive_table,lv_dm_path")
	if err != nil {
		return err
	}
	want, err := vg.tables()
	if err != nil {
		return err
	}
	live, err := liveTables()
	if err != nil {
		return err
	}
	for name, lv := range lvs {
		if lv["lv_active"] == "" {
			continue
		}
		if lv["lv_suspended"] != "" || lv["lv_inactive_table"] != "" {
			return fmt.Errorf("%s/%s is left %s %s", vg.Name, name, lv["lv_suspended"], lv["lv_inactive_table"])
		}
		if got := live[filepath.Base(lv["lv_dm_path"])]; !slices.Equal(got, want[name]) {
			return fmt.Errorf("%s/%s: the kernel maps %q and LVM says %q", vg.Name, name, got, want[name])
		}
	}
	return nil
}

// tables are the device-mapper tables that LVM's metadata means for the linear LVs of the VG, in dmsetup's words (kernel
// documentation, device-mapper/linear): sectors of 512 bytes.
func (vg *VG) tables() (map[string][]string, error) {
	type device struct {
		number string
		offset int64 // of its first extent
	}
	pvs := map[string]device{}
	out, err := Run("pvs", "--noheadings", "--units", "s", "--nosuffix", "-o", "pv_name,pv_major,pv_minor,pe_start", "-S", "vg_name="+vg.Name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		var name string
		var major, minor int
		var d device
		if _, err := fmt.Sscan(line, &name, &major, &minor, &d.offset); err != nil {
			return nil, fmt.Errorf("PV %q: %w", line, err)
		}
		d.number = fmt.Sprintf("%d:%d", major, minor)
		pvs[name] = d
	}
	out, err = Run("lvs", "--segments", "--noheadings", "--units", "s", "--nosuffix", "-O", "lv_name,seg_start",
		"-o", "lv_name,seg_start,seg_size,vg_extent_size,seg_pe_ranges", vg.Name)
	if err != nil {
		return nil, err
	}
	tables := map[string][]string{}
	for line := range strings.Lines(out) {
		var name, extents string
		var start, size, extent, first, last int64
		if _, err := fmt.Sscan(line, &name, &start, &size, &extent, &extents); err != nil {
			return nil, fmt.Errorf("segment %q: %w", line, err)
		}
		colon := strings.LastIndexByte(extents, ':')
		if _, err := fmt.Sscanf(extents[colon+1:], "%d-%d", &first, &last); err != nil {
			return nil, fmt.Errorf("segment %q: %w", line, err)
		}
		pv := pvs[extents[:colon]]
		tables[name] = append(tables[name], fmt.Sprintf("%d %d linear %s %d", start, size, pv.number, pv.offset+first*extent))
	}
	return tables, nil
}

// liveTables are the lines of the table of each device, by device-mapper name.
func liveTables() (map[string][]string, error) {
	out, err := Run("dmsetup", "table")
	if err != nil {
		return nil, err
	}
	tables := map[string][]string{}
	for line := range strings.Lines(out) {
		if name, table, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			tables[name] = append(tables[name], table)
		}
	}
	return tables, nil
}
