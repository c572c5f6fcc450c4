package lvm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// VG is a volume group as one report saw it. Sizes are bytes, and extents are counts.
type VG struct {
	Name, UUID  string
	ExtentSize  int64
	Extents     int64
	FreeExtents int64 // also those of PVs on which nothing may be allocated
	MDAFree     int64 // what is left of the smallest metadata area
	MDASize     int64
	Seqno       int64 // grows with each change of the metadata
	SystemID    string
	Partial     bool // a PV is missing
	Exported    bool
	Shared      bool // lvmlockd
	Clustered   bool
	Writable    bool
	PVs         []PV
	LVs         []LV
}

// PV is a physical volume of a VG.
type PV struct {
	Name        string // its device; "[unknown]" when missing
	UUID        string
	Extents     int64
	Allocated   int64
	Allocatable bool
	Missing     bool
	Duplicate   bool // the same PV is seen on more than one device
	Tags        []string
}

// LV is a logical volume of a VG, without the hidden ones.
type LV struct {
	Name, UUID    string
	Size          int64
	Tags          []string
	Layout        []string // "linear", "striped", "raid,raid1", "thin,sparse", ... (lvs(8), lv_layout)
	Role          []string // "public", "origin", "thickorigin", "snapshot", ... (lv_role)
	Origin        string
	Created       time.Time
	Active        bool
	Open          bool // something on this node holds its device open
	Suspended     bool
	InactiveTable bool // a table was loaded and never made live
	Moving        bool // a pvmove is copying it
	Health        string
	Major, Minor  int // -1 when not active
}

// HasTag reports whether the LV carries tag.
func (lv *LV) HasTag(tag string) bool { return slices.Contains(lv.Tags, tag) }

// IsThickOrigin reports whether removing the LV would remove snapshots too.
func (lv *LV) IsThickOrigin() bool { return slices.Contains(lv.Role, "thickorigin") }

// IsPartial reports whether part of the LV is on a missing PV.
func (lv *LV) IsPartial() bool { return lv.Health == "partial" }

// LV finds an LV by name. The error is ErrNotFound.
func (vg *VG) LV(name string) (*LV, error) {
	for i := range vg.LVs {
		if vg.LVs[i].Name == name {
			return &vg.LVs[i], nil
		}
	}
	return nil, fmt.Errorf("%s/%s: %w", vg.Name, name, ErrNotFound)
}

// reportArgs asks for all of a VG in one command. All fields exist since LVM 2.03.11;
// an unknown one would fail the command.
var reportArgs = []string{
	"--units", "b", "--nosuffix", "--binary",
	"--configreport", "vg", "-o", "vg_name,vg_uuid,vg_attr,vg_extent_size,vg_extent_count,vg_free_count,vg_mda_free,vg_mda_size," +
		"vg_seqno,vg_systemid,vg_partial,vg_exported,vg_shared,vg_clustered,vg_permissions",
	"--configreport", "pv", "-o", "pv_name,pv_uuid,pv_pe_count,pv_pe_alloc_count,pv_allocatable,pv_missing,pv_duplicate,pv_tags",
	"--configreport", "lv", "-o", "lv_name,lv_uuid,lv_size,lv_tags,lv_layout,lv_role,origin,lv_time,lv_active_locally,lv_device_open," +
		"lv_suspended,lv_inactive_table,lv_health_status,lv_kernel_major,lv_kernel_minor,lv_attr",
	// A full report cannot leave these out, only make them short.
	"--configreport", "pvseg", "-o", "pvseg_size",
	"--configreport", "seg", "-o", "segtype",
}

// row is one line of a report: every value is a string.
type row map[string]string

// parseVG reads one element of "report".
func parseVG(raw json.RawMessage) (*VG, error) {
	var r struct{ VG, PV, LV []row }
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("parsing a full report: %w", err)
	}
	if len(r.VG) != 1 {
		return nil, fmt.Errorf("parsing a full report: %d volume groups in one element", len(r.VG))
	}
	p := parser{row: r.VG[0]}
	vg := &VG{
		Name: p.text("vg_name"), UUID: p.text("vg_uuid"), SystemID: p.text("vg_systemid"),
		ExtentSize: p.int("vg_extent_size"), Extents: p.int("vg_extent_count"), FreeExtents: p.int("vg_free_count"),
		MDAFree: p.int("vg_mda_free"), MDASize: p.int("vg_mda_size"), Seqno: p.int("vg_seqno"),
		Partial: p.bool("vg_partial"), Exported: p.bool("vg_exported"), Shared: p.bool("vg_shared"), Clustered: p.bool("vg_clustered"),
		Writable: strings.HasPrefix(p.text("vg_attr"), "w"),
	}
	if p.err != nil {
		return nil, p.err
	}
	for _, line := range r.PV {
		p := parser{row: line}
		vg.PVs = append(vg.PVs, PV{
			Name: p.text("pv_name"), UUID: p.text("pv_uuid"), Tags: p.list("pv_tags"),
			Extents: p.int("pv_pe_count"), Allocated: p.int("pv_pe_alloc_count"),
			Allocatable: p.bool("pv_allocatable"), Missing: p.bool("pv_missing"), Duplicate: p.bool("pv_duplicate"),
		})
		if p.err != nil {
			return nil, fmt.Errorf("PV of %s: %w", vg.Name, p.err)
		}
	}
	for _, line := range r.LV {
		p := parser{row: line}
		lv := LV{
			Name: p.text("lv_name"), UUID: p.text("lv_uuid"), Size: p.int("lv_size"), Origin: p.text("origin"),
			Tags: p.list("lv_tags"), Layout: p.list("lv_layout"), Role: p.list("lv_role"), Health: p.text("lv_health_status"),
			Created: time.Unix(p.int("lv_time"), 0), Active: p.bool("lv_active_locally"), Open: p.bool("lv_device_open"),
			Suspended: p.bool("lv_suspended"), InactiveTable: p.bool("lv_inactive_table"),
			Major: int(p.int("lv_kernel_major")), Minor: int(p.int("lv_kernel_minor")),
		}
		// lvs(8), "lv_attr": a 'p' in the first column is a pvmove LV; an LV under a pvmove is locked,
		// which is a capital letter in the second column, the allocation policy's.
		if attr := p.text("lv_attr"); len(attr) > 2 {
			lv.Moving = attr[0] == 'p' || attr[2] >= 'A' && attr[2] <= 'Z'
		}
		if p.err != nil {
			return nil, fmt.Errorf("LV of %s: %w", vg.Name, p.err)
		}
		vg.LVs = append(vg.LVs, lv)
	}
	return vg, nil
}

// parser reads the fields of a row and keeps the first error.
type parser struct {
	row row
	err error
}

func (p *parser) text(field string) string {
	v, ok := p.row[field]
	if !ok && p.err == nil {
		p.err = fmt.Errorf("the report has no field %s", field)
	}
	return v
}

func (p *parser) int(field string) int64 {
	n, err := strconv.ParseInt(p.text(field), 10, 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("field %s: %w", field, err)
	}
	return n
}

// bool reads a field under --binary: "1", "0", and "-1" or "" where LVM cannot tell.
func (p *parser) bool(field string) bool { return p.text(field) == "1" }

func (p *parser) list(field string) []string {
	v := p.text(field)
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}
