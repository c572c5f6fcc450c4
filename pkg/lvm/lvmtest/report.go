package lvmtest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// The fields of a full report, as they are under --units b --nosuffix --binary.

var vgFields = map[string]func(*vg) string{
	"vg_name":         func(v *vg) string { return v.name },
	"vg_uuid":         func(v *vg) string { return v.uuid },
	"vg_attr":         func(v *vg) string { return "wz" + mark(v.exported, "x") + mark(v.partial(), "p") + "n-" },
	"vg_extent_size":  func(v *vg) string { return number(v.extentSize) },
	"vg_extent_count": func(v *vg) string { return number(v.extents()) },
	"vg_free_count":   func(v *vg) string { return number(v.extents() - v.used()) },
	"vg_mda_free":     func(v *vg) string { return number(max(0, (v.metadataMax()-v.metadataUsed())/512*512)) },
	"vg_mda_size":     func(v *vg) string { return number(v.metadataSize) },
	"vg_seqno":        func(v *vg) string { return number(v.seqno) },
	"vg_systemid":     func(v *vg) string { return v.systemID },
	"vg_partial":      func(v *vg) string { return bit(v.partial()) },
	"vg_exported":     func(v *vg) string { return bit(v.exported) },
	"vg_shared":       func(*vg) string { return "0" },
	"vg_clustered":    func(*vg) string { return "0" },
	"vg_permissions":  func(*vg) string { return "writeable" },
}

var pvFields = map[string]func(*pv) string{
	"pv_name":           func(p *pv) string { return cmp.Or(word(p.unplugged, "[unknown]"), p.name) },
	"pv_uuid":           func(p *pv) string { return p.uuid },
	"pv_pe_count":       func(p *pv) string { return number(int64(len(p.extents))) },
	"pv_pe_alloc_count": func(p *pv) string { return number(p.used()) },
	"pv_allocatable":    func(p *pv) string { return bit(p.allocatable) },
	"pv_missing":        func(p *pv) string { return bit(p.missing()) },
	"pv_duplicate":      func(*pv) string { return "0" },
	"pv_tags":           func(p *pv) string { return list(p.tags) },
}

var lvFields = map[string]func(*vg, *lv) string{
	"lv_name":           func(_ *vg, l *lv) string { return l.name },
	"lv_uuid":           func(_ *vg, l *lv) string { return l.uuid },
	"lv_size":           func(v *vg, l *lv) string { return number(v.size(l)) },
	"lv_tags":           func(_ *vg, l *lv) string { return list(l.tags) },
	"lv_layout":         func(*vg, *lv) string { return "linear" },
	"lv_role":           role,
	"origin":            func(_ *vg, l *lv) string { return l.originName() },
	"lv_time":           func(_ *vg, l *lv) string { return number(l.created) },
	"lv_active_locally": func(_ *vg, l *lv) string { return bit(l.active) },
	"lv_device_open":    func(_ *vg, l *lv) string { return l.ifActive(bit(l.opens > 0)) },
	"lv_suspended":      func(_ *vg, l *lv) string { return l.ifActive(bit(l.suspended)) },
	"lv_inactive_table": func(_ *vg, l *lv) string { return l.ifActive(bit(l.inactiveTable)) },
	"lv_health_status":  func(_ *vg, l *lv) string { return word(l.partial(), "partial") },
	"lv_kernel_major":   func(_ *vg, l *lv) string { return l.ifActive(strconv.Itoa(major)) },
	"lv_kernel_minor":   func(_ *vg, l *lv) string { return l.ifActive(strconv.Itoa(l.minor)) },
	"lv_attr":           attr,
}

var pvsegFields = map[string]bool{"pvseg_size": true}
var segFields = map[string]bool{"segtype": true}

// role is what lvs(8) shows as lv_role.
func role(v *vg, l *lv) string {
	switch {
	case l.origin != nil:
		return "public,snapshot,thicksnapshot"
	case len(v.snapshots(l)) > 0:
		return "public,origin,thickorigin"
	}
	return "public"
}

// attr is lvs(8)'s lv_attr.
func attr(v *vg, l *lv) string {
	kind := "-"
	switch {
	case l.origin != nil:
		kind = "s"
	case len(v.snapshots(l)) > 0:
		kind = "o"
	}
	state := mark(l.active, "a")
	if l.suspended {
		state = "s"
	}
	return kind + "wi-" + state + mark(l.opens > 0, "o") + "--" + mark(l.partial(), "p") + "-"
}

func (l *lv) originName() string {
	if l.origin == nil {
		return ""
	}
	return l.origin.name
}

// ifActive is the value of a field that comes from the device, which LVM shows as -1 when there is none.
func (l *lv) ifActive(value string) string {
	if !l.active {
		return "-1"
	}
	return value
}

// size of an LV in bytes. A thick snapshot shows as large as its origin.
func (v *vg) size(l *lv) int64 {
	if l.origin != nil {
		return v.size(l.origin)
	}
	return int64(len(l.extents)) * v.extentSize
}

func (v *vg) extents() int64 {
	var n int64
	for _, p := range v.pvs {
		n += int64(len(p.extents))
	}
	return n
}

func (v *vg) used() int64 {
	var n int64
	for _, p := range v.pvs {
		n += p.used()
	}
	return n
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// mark is one column of an attribute string.
func mark(b bool, c string) string {
	if b {
		return c
	}
	return "-"
}

// word is a value that is empty otherwise.
func word(b bool, s string) string {
	if b {
		return s
	}
	return ""
}

// list joins as lvm does, sorted.
func list(items []string) string {
	items = slices.Sorted(slices.Values(items))
	return strings.Join(items, ",")
}

// fullReport answers for one VG, or for all that this host may read.
func (f *Fake) fullReport(c command) lvm.Output {
	fields, fail := c.reportFields()
	if fail != nil {
		return *fail
	}
	var out lvm.Output
	for _, v := range f.sorted() {
		switch {
		case c.vg != "" && v.name != c.vg || !v.seen() || v.systemID != "" && c.vg == "":
			continue
		case v.systemID != "":
			return foreign(v)
		}
		out.Report = append(out.Report, v.json(fields))
		out.Log = append(out.Log, missingWarnings(v)...)
	}
	if c.vg != "" && len(out.Report) == 0 {
		return noVG(c.vg)
	}
	return out
}

// reportFields are the fields of each kind of report: an -o belongs to the --configreport before it.
func (c command) reportFields() (map[string][]string, *lvm.Output) {
	fields := map[string][]string{}
	kind := ""
	for _, o := range c.options {
		switch o.flag {
		case "--configreport":
			kind = o.value
		case "-o":
			fields[kind] = strings.Split(o.value, ",")
		}
	}
	known := map[string]func(string) bool{
		"vg":    func(s string) bool { return vgFields[s] != nil },
		"pv":    func(s string) bool { return pvFields[s] != nil },
		"lv":    func(s string) bool { return lvFields[s] != nil },
		"pvseg": func(s string) bool { return pvsegFields[s] },
		"seg":   func(s string) bool { return segFields[s] },
	}
	for kind, names := range fields {
		for _, name := range names {
			if known[kind] == nil || !known[kind](name) {
				return nil, &lvm.Output{Code: 5, Log: []lvm.Message{
					{Type: "error", Context: "processing", Object: "cmd", Text: "Unrecognised field: " + name, Errno: "-1", Code: "0"},
				}}
			}
		}
	}
	return fields, nil
}

func (v *vg) json(fields map[string][]string) json.RawMessage {
	r := map[string][]map[string]string{"vg": {}, "pv": {}, "lv": {}, "pvseg": {}, "seg": {}}
	line := func(kind string, get func(field string) string) {
		row := map[string]string{}
		for _, name := range fields[kind] {
			row[name] = get(name)
		}
		r[kind] = append(r[kind], row)
	}
	line("vg", func(s string) string { return vgFields[s](v) })
	for _, p := range v.pvs {
		line("pv", func(s string) string { return pvFields[s](p) })
		line("pvseg", func(string) string { return number(int64(len(p.extents))) })
	}
	for _, l := range slices.SortedFunc(slices.Values(v.lvs), func(a, b *lv) int { return strings.Compare(a.name, b.name) }) {
		line("lv", func(s string) string { return lvFields[s](v, l) })
		line("seg", func(string) string { return "linear" })
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return raw
}

func (f *Fake) sorted() []*vg {
	var all []*vg
	for _, v := range f.vgs {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *vg) int { return strings.Compare(a.name, b.name) })
	return all
}
