package lvm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// captured parses a captured report of one VG.
func captured(t *testing.T, dir, name string) *VG {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := outcome([]string{"fullreport"}, nil, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Report) != 1 {
		t.Fatalf("%d volume groups in %s", len(out.Report), name)
	}
	vg, err := parseVG(out.Report[0])
	if err != nil {
		t.Fatal(err)
	}
	return vg
}

func TestParseCapturedLVs(t *testing.T) {
	type summary struct {
		Layout, Role, Origin                   string
		Active, Open, Suspended, InactiveTable bool
		Size                                   int64
		Tags                                   string
	}
	const mib = 1 << 20
	want := map[string]summary{
		"linear":   {Layout: "linear", Role: "public", Active: true, Open: true, Size: 8 * mib, Tags: "a_+.-/=!:&#,lvm-csi.io/v=1"},
		"striped":  {Layout: "striped", Role: "public", Active: true, Size: 24 * mib},
		"raid1":    {Layout: "raid,raid1", Role: "public", Active: true, Size: 8 * mib},
		"raid5":    {Layout: "raid,raid5,raid5_ls", Role: "public", Active: true, Size: 16 * mib},
		"inactive": {Layout: "linear", Role: "public", Size: 4 * mib},
		"origin":   {Layout: "linear", Role: "public,origin,thickorigin", Active: true, Size: 4 * mib},
		"snap":     {Layout: "linear", Role: "public,snapshot,thicksnapshot", Origin: "origin", Active: true, Size: 4 * mib},
		"pool":     {Layout: "thin,pool", Role: "private", Active: true, Open: true, Size: 12 * mib},
		"thin":     {Layout: "thin,sparse", Role: "public,origin,thinorigin", Active: true, Size: 1024 * mib},
		"thinsnap": {Layout: "thin,sparse", Role: "public,snapshot,thinsnapshot", Origin: "thin", Active: true, Size: 1024 * mib},
		"stranded": {Layout: "linear", Role: "public", Active: true, Suspended: true, InactiveTable: true, Size: 4 * mib},
	}
	eachVersion(t, func(t *testing.T, dir string) {
		vg := captured(t, dir, "healthy")
		got := map[string]summary{}
		for _, lv := range vg.LVs {
			got[lv.Name] = summary{
				strings.Join(lv.Layout, ","), strings.Join(lv.Role, ","), lv.Origin,
				lv.Active, lv.Open, lv.Suspended, lv.InactiveTable, lv.Size, strings.Join(lv.Tags, ","),
			}
			if lv.UUID == "" || lv.Created.Year() < 2020 || lv.Health != "" || lv.Moving || lv.Active != (lv.Major > 0 && lv.Minor >= 0) {
				t.Errorf("unexpected: %+v", lv)
			}
			if lv.IsThickOrigin() != (lv.Name == "origin") {
				t.Errorf("IsThickOrigin of %s", lv.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestParseCapturedVGs(t *testing.T) {
	eachVersion(t, func(t *testing.T, dir string) {
		empty := captured(t, dir, "empty")
		if empty.Name != "capvg" || empty.ExtentSize != 4<<20 || empty.Extents != 87 || empty.FreeExtents != 87 || !empty.Writable || empty.Seqno < 1 {
			t.Errorf("empty: %+v", empty)
		}
		if empty.MDASize < 1<<19 || empty.MDAFree < 1<<18 || empty.Exported || empty.Partial || empty.Shared || empty.Clustered {
			t.Errorf("empty: %+v", empty)
		}
		if len(empty.PVs) != 3 || empty.PVs[0].Extents != 29 || empty.PVs[0].Allocated != 0 || !empty.PVs[0].Allocatable || empty.PVs[0].UUID == "" {
			t.Errorf("empty: %+v", empty.PVs)
		}
		if vg := captured(t, dir, "exported"); !vg.Exported || vg.Partial {
			t.Errorf("exported: %+v", vg)
		}
		if vg := captured(t, dir, "full"); vg.MDAFree > 2048 || vg.FreeExtents == 0 {
			t.Errorf("full: %+v", vg)
		}
		for _, name := range []string{"partial", "outdated"} {
			vg := captured(t, dir, name)
			here, err := vg.LV("here")
			if err != nil || here.IsPartial() {
				t.Errorf("%s: %+v, %v", name, here, err)
			}
			gone, err := vg.LV("gone")
			if err != nil || !gone.IsPartial() || gone.Active {
				t.Errorf("%s: %+v, %v", name, gone, err)
			}
			if !vg.Partial || len(vg.PVs) != 2 || vg.PVs[0].Missing || !vg.PVs[1].Missing {
				t.Errorf("%s: %+v", name, vg)
			}
			if _, err := vg.LV("nosuch"); !errors.Is(err, ErrNotFound) {
				t.Errorf("an absent LV: %v", err)
			}
		}
	})
}

func TestParseRefuses(t *testing.T) {
	healthy, err := os.ReadFile("testdata/2.03.16/healthy.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new string }{
		{"a field is missing", `"lv_time":`, `"x":`},
		{"a number is no number", `"lv_size":"`, `"lv_size":"x`},
		{"a VG field is missing", `"vg_mda_free":`, `"x":`},
		{"a PV field is missing", `"pv_missing":`, `"x":`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(string(healthy), c.old, c.new)
			if text == string(healthy) {
				t.Fatal("nothing was replaced")
			}
			out, err := outcome([]string{"fullreport"}, nil, []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if vg, err := parseVG(out.Report[0]); err == nil {
				t.Errorf("parsed as %+v", vg)
			}
		})
	}
	for _, text := range []string{`{}`, `{"vg":[]}`, `{"vg":[{},{}]}`, `[]`, `"`} {
		if vg, err := parseVG([]byte(text)); err == nil {
			t.Errorf("%s parsed as %+v", text, vg)
		}
	}
}

func TestParseMoving(t *testing.T) {
	for attr, want := range map[string]bool{
		"-wi-a-----": false, "-wI-a-----": true, "pwC-aom---": true, "-wc-a-----": false, "": false, "-w": false,
	} {
		row := `{"vg":[{"vg_name":"v","vg_uuid":"","vg_attr":"wz--n-","vg_extent_size":"1","vg_extent_count":"1","vg_free_count":"1",` +
			`"vg_mda_free":"1","vg_mda_size":"1","vg_seqno":"1","vg_systemid":"","vg_partial":"0","vg_exported":"0","vg_shared":"0",` +
			`"vg_clustered":"0"}],"lv":[{"lv_name":"a","lv_uuid":"","lv_size":"1","lv_tags":"","lv_layout":"linear","lv_role":"public",` +
			`"origin":"","lv_time":"1","lv_active_locally":"1","lv_device_open":"0","lv_suspended":"0","lv_inactive_table":"0",` +
			`"lv_health_status":"","lv_kernel_major":"1","lv_kernel_minor":"1","lv_attr":"` + attr + `"}]}`
		vg, err := parseVG([]byte(row))
		if err != nil {
			t.Fatal(err)
		}
		if vg.LVs[0].Moving != want {
			t.Errorf("%q: %v", attr, !want)
		}
	}
}
