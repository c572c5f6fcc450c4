package lvmtest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

var reportCases = []contractCase{
	{"an empty VG", func(s *suite) {
		vg := s.newVG(VGOptions{PVs: []int64{64 * mib, 128 * mib}})
		r := s.report(vg)
		if r.Name != vg || r.UUID == "" || r.ExtentSize != 4*mib || r.Extents != 48 || r.FreeExtents != 48 || len(r.PVs) != 2 || len(r.LVs) != 0 {
			s.Errorf("unexpected report %+v", r)
		}
		if r.Partial || r.Exported || r.Shared || r.Clustered || !r.Writable || r.MDAFree == 0 || r.MDASize == 0 {
			s.Errorf("unexpected state %+v", r)
		}
		if _, err := r.LV("nosuch"); !errors.Is(err, lvm.ErrNotFound) {
			s.Errorf("an absent LV is %v", err)
		}
	}},
	{"no VG", func(s *suite) {
		_, reportErr := s.l.Report(s.ctx, "ctnosuch")
		for what, err := range map[string]error{
			"Report":   reportErr,
			"Create":   s.l.Create(s.ctx, lvm.NewLV{VG: "ctnosuch", Name: "a", Size: mib}),
			"Extend":   s.l.Extend(s.ctx, "ctnosuch", "a", mib),
			"Activate": s.l.Activate(s.ctx, "ctnosuch", "a"),
			"Retag":    s.l.Retag(s.ctx, "ctnosuch", "a", "x", "y"),
			"Remove":   s.l.Remove(s.ctx, "ctnosuch", "a", tag),
			"Backup":   s.l.Backup(s.ctx, "ctnosuch"),
		} {
			if !errors.Is(err, lvm.ErrNoVG) || errors.Is(err, lvm.ErrNotFound) {
				s.Errorf("%s without the VG: %v", what, err)
			}
		}
	}},
	{"all VGs", func(s *suite) {
		one, two := s.newVG(VGOptions{}), s.newVG(VGOptions{})
		all, err := s.l.Reports(s.ctx)
		s.must(err)
		seen := map[string]bool{}
		for _, vg := range all {
			seen[vg.Name] = true
		}
		if !seen[one] || !seen[two] {
			s.Errorf("saw %v", seen)
		}
	}},
	{"an exported VG", func(s *suite) {
		vg := s.newVG(VGOptions{Exported: true})
		if !s.report(vg).Exported {
			s.Error("not reported as exported")
		}
		if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "a", Size: mib}); !errors.Is(err, lvm.ErrUnavailable) {
			s.Errorf("Create: %v", err)
		}
	}},
	{"a VG of another host", func(s *suite) {
		vg := s.newVG(VGOptions{SystemID: "another"})
		if _, err := s.l.Report(s.ctx, vg); !errors.Is(err, lvm.ErrForeign) {
			s.Errorf("Report: %v", err)
		}
		if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "a", Size: mib}); !errors.Is(err, lvm.ErrForeign) {
			s.Errorf("Create: %v", err)
		}
	}},
}

var createCases = []contractCase{
	{"rounds up, tags, dates and activates", func(s *suite) {
		vg := s.newVG(VGOptions{})
		before := s.report(vg)
		s.create(vg, "a", 4*mib+1, tag, "second")
		after := s.report(vg)
		got, err := after.LV("a")
		s.must(err)
		want := lvm.LV{
			Name: "a", UUID: got.UUID, Size: 8 * mib, Tags: []string{tag, "second"}, Layout: []string{"linear"}, Role: []string{"public"},
			Created: got.Created, Active: true, Major: got.Major, Minor: got.Minor,
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			s.Errorf("the LV (-want +got):\n%s", diff)
		}
		if got.UUID == "" || got.Created.Before(time.Unix(1e9, 0)) || got.Major <= 0 || got.Minor < 0 {
			s.Errorf("the LV lacks something: %+v", got)
		}
		if after.FreeExtents != before.FreeExtents-2 || after.Seqno <= before.Seqno || after.MDAFree > before.MDAFree {
			s.Errorf("before %+v\nafter %+v", before, after)
		}
		s.must(s.l.Extend(s.ctx, vg, "a", 16*mib))
		if again := s.lv(vg, "a"); !again.Created.Equal(got.Created) || again.UUID != got.UUID {
			s.Errorf("extending changed its time or UUID: %+v", again)
		}
	}},
	{"exists", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		for _, size := range []int64{4 * mib, 8 * mib, 1 << 40} {
			if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "a", Size: size}); !errors.Is(err, lvm.ErrExists) {
				s.Errorf("Create again with %d: %v", size, err)
			}
		}
		if lv := s.lv(vg, "a"); lv.Size != 4*mib || !lv.HasTag(tag) {
			s.Errorf("changed to %+v", lv)
		}
	}},
	{"exists, of somebody else", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.ForeignLV(s.T, vg, "a", 4*mib)
		if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "a", Size: 4 * mib}); !errors.Is(err, lvm.ErrExists) {
			s.Error(err)
		}
	}},
	{"no space", func(s *suite) {
		vg := s.newVG(VGOptions{})
		for _, size := range []int64{65 * mib, 1 << 40, 1 << 56, 1 << 62} {
			if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: "a", Size: size}); !errors.Is(err, lvm.ErrNoSpace) {
				s.Errorf("Create of %d bytes: %v", size, err)
			}
		}
		if left := s.names(vg); left != "" {
			s.Errorf("left behind: %s", left)
		}
		s.create(vg, "a", 64*mib)
	}},
	{"wipes what was there", func(s *suite) {
		vg := s.newVG(VGOptions{PVs: []int64{192 * mib}})
		s.create(vg, "a", 192*mib, tag)
		s.Format(s.T, vg, "a")
		if s.Signature(s.T, vg, "a") == "" {
			s.Fatal("the environment does not format")
		}
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		s.create(vg, "b", 192*mib, tag)
		if found := s.Signature(s.T, vg, "b"); found != "" {
			s.Errorf("the new LV shows %s", found)
		}
	}},
	{"activate", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		s.Deactivate(s.T, vg, "a")
		if lv := s.lv(vg, "a"); lv.Active || lv.Open || lv.Suspended || lv.InactiveTable || lv.Major != -1 || lv.Minor != -1 {
			s.Errorf("inactive: %+v", lv)
		}
		seqno := s.report(vg).Seqno
		for range 2 {
			s.must(s.l.Activate(s.ctx, vg, "a"))
			if r := s.report(vg); !r.LVs[0].Active || r.Seqno != seqno {
				s.Errorf("after: %+v", r)
			}
		}
		if err := s.l.Activate(s.ctx, vg, "nosuch"); err == nil || errors.Is(err, lvm.ErrNotFound) {
			s.Errorf("activating an absent LV: %v", err)
		}
	}},
	{"backup", func(s *suite) {
		s.must(s.l.Backup(s.ctx, s.newVG(VGOptions{})))
	}},
}

var extendCases = []contractCase{
	{"grows, open or not", func(s *suite) {
		vg := s.newVG(VGOptions{PVs: []int64{32 * mib, 32 * mib}})
		s.create(vg, "a", 4*mib)
		s.Write(s.T, vg, "a", "kept")
		s.must(s.l.Extend(s.ctx, vg, "a", 8*mib-1))
		defer s.Open(s.T, vg, "a")()
		s.must(s.l.Extend(s.ctx, vg, "a", 64*mib))
		if lv := s.lv(vg, "a"); lv.Size != 64*mib || !lv.Active || !lv.Open || lv.Suspended {
			s.Errorf("%+v", lv)
		}
	}},
	{"does not activate", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		s.Deactivate(s.T, vg, "a")
		s.must(s.l.Extend(s.ctx, vg, "a", 8*mib))
		if lv := s.lv(vg, "a"); lv.Size != 8*mib || lv.Active {
			s.Errorf("%+v", lv)
		}
	}},
	{"not larger", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 12*mib)
		for _, size := range []int64{12 * mib, 12*mib - 1, 4 * mib, 1} {
			if err := s.l.Extend(s.ctx, vg, "a", size); !errors.Is(err, lvm.ErrNotLarger) {
				s.Errorf("to %d: %v", size, err)
			}
		}
	}},
	{"no space", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 12*mib)
		for _, size := range []int64{65 * mib, 1 << 40, 1 << 56, 1 << 62} {
			if err := s.l.Extend(s.ctx, vg, "a", size); !errors.Is(err, lvm.ErrNoSpace) {
				s.Errorf("to %d: %v", size, err)
			}
		}
		if lv := s.lv(vg, "a"); lv.Size != 12*mib || lv.Suspended {
			s.Errorf("%+v", lv)
		}
	}},
	{"absent", func(s *suite) {
		vg := s.newVG(VGOptions{})
		if err := s.l.Extend(s.ctx, vg, "a", 4*mib); err == nil || errors.Is(err, lvm.ErrNotFound) {
			s.Errorf("a message of lvm was taken as proof of absence: %v", err)
		}
	}},
	{"a thick origin in use", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		s.Snapshot(s.T, vg, "a", "s")
		if err := s.l.Extend(s.ctx, vg, "a", 8*mib); err == nil || errors.Is(err, lvm.ErrNoSpace) {
			s.Error(err)
		}
	}},
}

var retagCases = []contractCase{
	{"both ways in one command", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, "keep", "old")
		seqno, commands := s.report(vg).Seqno, s.rec.count()
		s.must(s.l.Retag(s.ctx, vg, "a", "new", "old"))
		if n := s.rec.count() - commands; n != 1 {
			s.Errorf("%d commands", n)
		}
		r := s.report(vg)
		if diff := cmp.Diff([]string{"keep", "new"}, r.LVs[0].Tags); diff != "" || r.Seqno != seqno+1 {
			s.Errorf("seqno %d to %d, tags (-want +got):\n%s", seqno, r.Seqno, diff)
		}
	}},
	{"one way, and again", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		for range 2 {
			s.must(s.l.Retag(s.ctx, vg, "a", "x", ""))
		}
		if !s.lv(vg, "a").HasTag("x") {
			s.Error("not added")
		}
		for range 2 {
			s.must(s.l.Retag(s.ctx, vg, "a", "", "x"))
		}
		if s.lv(vg, "a").HasTag("x") {
			s.Error("not removed")
		}
	}},
	{"absent", func(s *suite) {
		vg := s.newVG(VGOptions{})
		if err := s.l.Retag(s.ctx, vg, "a", "x", ""); err == nil || errors.Is(err, lvm.ErrNotFound) {
			s.Errorf("a message of lvm was taken as proof of absence: %v", err)
		}
	}},
}

var removeCases = []contractCase{
	{"by its tag", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		s.create(vg, "b", 4*mib, tag)
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		if left := s.names(vg); left != "b" {
			s.Errorf("left: %s", left)
		}
		s.must(s.l.Remove(s.ctx, vg, "a", tag)) // again
	}},
	{"inactive", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		s.Deactivate(s.T, vg, "a")
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		if left := s.names(vg); left != "" {
			s.Errorf("left: %s", left)
		}
	}},
	{"not without its tag", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag+"0")
		s.ForeignLV(s.T, vg, "b", 4*mib)
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		s.must(s.l.Remove(s.ctx, vg, "b", tag))
		if left := s.names(vg); left != "a b" {
			s.Errorf("left: %s", left)
		}
	}},
	{"not while open, and at once", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		end := s.Open(s.T, vg, "a")
		if !s.lv(vg, "a").Open {
			s.Error("not reported as open")
		}
		start := time.Now()
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		if took := time.Since(start); took > 4*time.Second { // LVM tries an open LV for 5 s
			s.Errorf("took %v", took)
		}
		if left := s.names(vg); left != "a" {
			s.Errorf("left: %s", left)
		}
		end()
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		if left := s.names(vg); left != "" {
			s.Errorf("left after closing: %s", left)
		}
	}},
	{"not the origin of a snapshot", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib, tag)
		s.Snapshot(s.T, vg, "a", "s")
		r := s.report(vg)
		a, err := r.LV("a")
		s.must(err)
		snap, err := r.LV("s")
		s.must(err)
		if !a.IsThickOrigin() || snap.IsThickOrigin() || snap.Origin != "a" {
			s.Errorf("%+v\n%+v", a, snap)
		}
		s.must(s.l.Remove(s.ctx, vg, "a", tag))
		if left := s.names(vg); left != "a s" {
			s.Errorf("left: %s", left)
		}
	}},
}
