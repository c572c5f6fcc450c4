package capacity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

const mib = int64(1) << 20

// TestLinear is a table to check by hand. Extents are 4 MiB; PVs are (extents, allocated).
func TestLinear(t *testing.T) {
	vg := func(pvs ...lvm.PV) *lvm.VG {
		return &lvm.VG{Name: "vg0", ExtentSize: 4 * mib, MDAFree: 512 << 10, MDASize: 1020 << 10, Writable: true, PVs: pvs}
	}
	pv := func(extents, allocated int64) lvm.PV {
		return lvm.PV{Name: "/dev/sdb", Extents: extents, Allocated: allocated, Allocatable: true}
	}
	room := func(extents int64) Room {
		return Room{Available: extents * 4 * mib, Maximum: extents * 4 * mib, Minimum: 4 * mib}
	}
	for name, test := range map[string]struct {
		vg      *lvm.VG
		reserve int64
		want    Room
		reason  string // a part of it; then want is zero
	}{
		"one empty PV":                    {vg: vg(pv(100, 0)), want: room(100)},
		"two PVs, partly used":            {vg: vg(pv(100, 30), pv(50, 50), pv(10, 9)), want: room(70 + 0 + 1)},
		"a PV closed to allocation":       {vg: vg(pv(100, 0), lvm.PV{Extents: 1000}), want: room(100)},
		"a reserve of whole extents":      {vg: vg(pv(100, 0)), reserve: 40 * mib, want: room(90)},
		"a reserve of a bit more":         {vg: vg(pv(100, 0)), reserve: 40*mib + 1, want: room(89)},
		"a reserve of all but one extent": {vg: vg(pv(100, 0)), reserve: 396 * mib, want: room(1)},
		"a reserve of all":                {vg: vg(pv(100, 0)), reserve: 400 * mib, reason: "reserve"},
		"a reserve larger than the VG":    {vg: vg(pv(100, 0)), reserve: 1 << 50, reason: "reserve"},
		"a full VG":                       {vg: vg(pv(100, 100)), reason: "full"},
		"no PV open to allocation":        {vg: vg(lvm.PV{Extents: 100}), reason: "full"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Linear(test.vg, test.reserve)
			if test.reason == "" {
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
			} else if got.Available != 0 || got.Maximum != 0 || got.Minimum != 0 || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want none because of %q", got, test.reason)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	all := Room{Available: 40 * mib, Maximum: 40 * mib, Minimum: 4 * mib}
	for name, test := range map[string]struct {
		room  Room
		bytes int64
		want  Room
	}{
		"nothing is on its way":  {all, 0, all},
		"a part":                 {all, 12 * mib, Room{Available: 28 * mib, Maximum: 28 * mib, Minimum: 4 * mib}},
		"all":                    {all, 40 * mib, Room{Reason: "given"}},
		"more than all":          {all, 44 * mib, Room{Reason: "given"}},
		"of none, with a reason": {Room{Reason: "full"}, 4 * mib, Room{Reason: "full"}},
		"maximum is smaller":     {Room{Available: 40 * mib, Maximum: 8 * mib, Minimum: 4 * mib}, 12 * mib, Room{Available: 28 * mib, Maximum: 8 * mib, Minimum: 4 * mib}},
	} {
		got := test.room.Without(test.bytes)
		reason := strings.Contains(got.Reason, test.want.Reason) && (got.Reason == "") == (test.want.Reason == "")
		got.Reason, test.want.Reason = "", ""
		if got != test.want || !reason {
			t.Errorf("%s: got %+v", name, test.room.Without(test.bytes))
		}
	}
}

// TestUnfit: a VG in which nothing may be made has no room, and says why and what to do.
func TestUnfit(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*lvm.VG)
		reason []string
	}{
		"partial":         {func(vg *lvm.VG) { vg.Partial = true }, []string{"misses", "vgreduce"}},
		"exported":        {func(vg *lvm.VG) { vg.Exported = true }, []string{"exported", "vgimport"}},
		"shared":          {func(vg *lvm.VG) { vg.Shared = true }, []string{"shared"}},
		"clustered":       {func(vg *lvm.VG) { vg.Clustered = true }, []string{"shared"}},
		"read-only":       {func(vg *lvm.VG) { vg.Writable = false }, []string{"read-only", "vgchange"}},
		"metadata full":   {func(vg *lvm.VG) { vg.MDAFree = 0 }, []string{"metadata", "metadatasize"}},
		"metadata margin": {func(vg *lvm.VG) { vg.MDAFree = metadataMargin - 1 }, []string{"metadata"}},
		"duplicate PV":    {func(vg *lvm.VG) { vg.PVs[0].Duplicate = true }, []string{"/dev/sdb", "lvmdevices"}},
	} {
		t.Run(name, func(t *testing.T) {
			vg := &lvm.VG{Name: "vg0", ExtentSize: mib, MDAFree: metadataMargin, Writable: true,
				PVs: []lvm.PV{{Name: "/dev/sdb", Extents: 10, Allocatable: true}}}
			if got := Linear(vg, 0); got.Maximum != 10*mib {
				t.Fatalf("unspoilt: %+v", got)
			}
			test.spoil(vg)
			got := Linear(vg, 0)
			if got.Available != 0 || got.Maximum != 0 {
				t.Errorf("got %+v", got)
			}
			for _, word := range append(test.reason, "vg0") {
				if !strings.Contains(got.Reason, word) {
					t.Errorf("reason %q does not say %q", got.Reason, word)
				}
			}
		})
	}
}
