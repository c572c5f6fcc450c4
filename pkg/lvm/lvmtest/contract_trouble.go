package lvmtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

var metadataCases = []contractCase{
	{"full", func(s *suite) {
		vg := s.newVG(VGOptions{PVs: []int64{256 * mib}, MetadataSize: 124 << 10})
		long := func(n int) string { return fmt.Sprintf("%d/%s", n, strings.Repeat("x", 1000)) }
		var tags []string
		for n := range 10 {
			tags = append(tags, long(n))
		}
		var err error
		n := 0
		for ; err == nil && n < 30; n++ {
			err = s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: fmt.Sprintf("a%d", n), Size: 4 * mib, Tags: append(tags, tag)})
		}
		if !errors.Is(err, lvm.ErrNoSpace) {
			s.Fatalf("after %d volumes: %v", n, err)
		}
		r := s.report(vg)
		if len(r.LVs) != n-1 || r.FreeExtents == 0 || r.MDAFree > 11<<10 {
			s.Errorf("%d volumes, %d free extents, %d bytes of metadata free", len(r.LVs), r.FreeExtents, r.MDAFree)
		}
		err = nil
		for n := 10; err == nil && n < 30; n++ {
			err = s.l.Retag(s.ctx, vg, "a0", long(n), "")
		}
		if !errors.Is(err, lvm.ErrNoSpace) {
			s.Fatal(err)
		}
		s.must(s.l.Retag(s.ctx, vg, "a0", "", long(1)))
		s.must(s.l.Remove(s.ctx, vg, "a1", tag))
		s.create(vg, "b", 4*mib)
	}},
}

// twoPVs makes a VG of two PVs, with an inactive LV on each, and takes one PV away.
func (s *suite) twoPVs() (vg, here, gone string, back func()) {
	vg = s.newVG(VGOptions{PVs: []int64{32 * mib, 32 * mib}})
	for _, name := range []string{"a", "b"} {
		s.create(vg, name, 24*mib, tag)
		s.Deactivate(s.T, vg, name)
	}
	back = s.Unplug(s.T, vg, 1)
	here, gone = "a", "b"
	if s.lv(vg, "a").IsPartial() {
		here, gone = gone, here
	}
	return vg, here, gone, back
}

var missingCases = []contractCase{
	{"some work, none can be made", func(s *suite) {
		vg, here, gone, back := s.twoPVs()
		r := s.report(vg)
		missing := 0
		for _, pv := range r.PVs {
			if pv.Missing {
				missing++
			}
		}
		if !r.Partial || missing != 1 || len(r.PVs) != 2 {
			s.Errorf("%+v", r)
		}
		if lv := s.lv(vg, gone); !lv.IsPartial() || lv.Active {
			s.Errorf("%+v", lv)
		}
		if s.lv(vg, here).IsPartial() {
			s.Errorf("both are partial")
		}
		for what, err := range map[string]error{
			"Create":   s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "c", Size: 4 * mib}),
			"Extend":   s.l.Extend(s.ctx, vg, here, 28*mib),
			"Activate": s.l.Activate(s.ctx, vg, gone),
		} {
			if !errors.Is(err, lvm.ErrUnavailable) {
				s.Errorf("%s: %v", what, err)
			}
		}
		s.must(s.l.Activate(s.ctx, vg, here))
		back()
		if s.report(vg).Partial {
			s.Error("still partial")
		}
		s.must(s.l.Activate(s.ctx, vg, gone))
		s.create(vg, "c", 4*mib)
	}},
	{"a change meanwhile keeps the PV out", func(s *suite) {
		vg, here, gone, back := s.twoPVs()
		s.must(s.l.Retag(s.ctx, vg, here, "x", ""))
		back()
		if !s.report(vg).Partial {
			s.Error("not partial: Retag's warning is out of date")
		}
		if err := s.l.Activate(s.ctx, vg, gone); !errors.Is(err, lvm.ErrUnavailable) {
			s.Error(err)
		}
	}},
	{"Remove does not spare an LV on a missing PV", func(s *suite) {
		vg, here, gone, _ := s.twoPVs()
		s.must(s.l.Remove(s.ctx, vg, gone, tag))
		if left := s.names(vg); left != here {
			s.Errorf("left: %s; callers need not look at IsPartial any more", left)
		}
	}},
	{"a VG without any PV is no VG", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		s.Deactivate(s.T, vg, "a")
		back := s.Unplug(s.T, vg, 0)
		if _, err := s.l.Report(s.ctx, vg); !errors.Is(err, lvm.ErrNoVG) {
			s.Errorf("Report: %v", err)
		}
		if err := s.l.Remove(s.ctx, vg, "a", tag); !errors.Is(err, lvm.ErrNoVG) {
			s.Errorf("Remove: %v", err)
		}
		back()
		if left := s.names(vg); left != "a" {
			s.Errorf("after coming back: %q", left)
		}
	}},
}

var repairCases = []contractCase{
	{"a suspended LV with an inactive table", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a-b", 4*mib)
		s.create(vg, "c", 4*mib)
		s.Write(s.T, vg, "a-b", "word")
		s.Strand(s.T, vg, "a-b")
		if lv := s.lv(vg, "a-b"); !lv.Suspended || !lv.InactiveTable {
			s.Fatalf("the environment does not strand: %+v", lv)
		}
		s.must(lvm.New(s.rec).Retag(s.ctx, vg, "c", "x", ""))
		if lv := s.lv(vg, "a-b"); lv.Suspended || lv.InactiveTable {
			s.Errorf("%+v", lv)
		}
		if word, err := s.Read(s.T, vg, "a-b"); word != "word" || err != nil {
			s.Errorf("reads %q, %v", word, err)
		}
	}},
	{"a working LV with an inactive table", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		s.Write(s.T, vg, "a", "word")
		s.LoadTable(s.T, vg, "a")
		if lv := s.lv(vg, "a"); lv.Suspended || !lv.InactiveTable {
			s.Fatalf("the environment loads no table: %+v", lv)
		}
		s.must(lvm.New(s.rec).Extend(s.ctx, vg, "a", 8*mib))
		if lv := s.lv(vg, "a"); lv.Suspended || lv.InactiveTable || lv.Size != 8*mib {
			s.Errorf("%+v", lv)
		}
		if word, err := s.Read(s.T, vg, "a"); word != "word" || err != nil {
			s.Errorf("reads %q, %v", word, err)
		}
	}},
	{"only before the first change", func(s *suite) {
		vg := s.newVG(VGOptions{})
		l := lvm.New(s.rec)
		for _, want := range []int{2, 1, 1} {
			before := s.rec.count()
			s.must(l.Create(s.ctx, lvm.NewLV{VG: vg, Name: fmt.Sprintf("a%d", before), Size: mib}))
			if n := s.rec.count() - before; n != want {
				s.Errorf("%d commands, not %d", n, want)
			}
		}
	}},
}
