package lvmtest

import (
	"fmt"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// longest names as they are written in /dev/mapper, without and with '-', which counts twice there.
var (
	longVGs = []string{"ct" + strings.Repeat("v", 53), "ct" + strings.Repeat("-v", 17) + "vv"}
	longLVs = []string{strings.Repeat("l", 63), strings.Repeat("l-", 21)}
)

var nameCases = []contractCase{
	{"the longest are accepted", func(s *suite) {
		for _, vg := range longVGs {
			s.must(lvm.CheckVGName(vg))
			if lvm.CheckVGName(vg+"v") == nil {
				s.Errorf("%s is not the longest", vg)
			}
			s.VG(s.T, vg, VGOptions{PVs: []int64{64 * mib}})
			for _, lv := range longLVs {
				if lvm.CheckLVName(lv+"l") == nil {
					s.Errorf("%s is not the longest", lv)
				}
				s.create(vg, lv, 4*mib, tag)
				s.must(s.l.Extend(s.ctx, vg, lv, 8*mib))
				s.Write(s.T, vg, lv, "word")
				s.must(s.l.Remove(s.ctx, vg, lv, tag))
				if left := s.names(vg); left != "" {
					s.Errorf("left: %s", left)
				}
			}
		}
	}},
	{"every character is accepted", func(s *suite) {
		vg := s.newVG(VGOptions{})
		for _, lv := range []string{alnum, "+_.-", "...", "snapsho", "pvmov"} {
			s.must(lvm.CheckLVName(lv))
			s.create(vg, lv, 4*mib, tag)
			if got := s.lv(vg, lv); !got.Active {
				s.Errorf("%+v", got)
			}
			s.must(s.l.Remove(s.ctx, vg, lv, tag))
			if left := s.names(vg); left != "" {
				s.Errorf("left: %s", left)
			}
		}
	}},
	{"every tag is accepted", func(s *suite) {
		vg := s.newVG(VGOptions{})
		all := []string{alnum, "a_+.-/=!:&#", "&&", "!=", "#", "=a", "/", ".", "+", strings.Repeat("t", lvm.MaxTag)}
		for _, tag := range all {
			s.must(lvm.CheckTag(tag))
		}
		s.create(vg, "a", 4*mib, all...)
		for i, tag := range all {
			if !s.lv(vg, "a").HasTag(tag) {
				s.Errorf("%s was not made", tag)
			}
			s.must(s.l.Retag(s.ctx, vg, "a", "", tag))
			s.must(s.l.Remove(s.ctx, vg, "a", tag)) // it has that no more
			s.must(s.l.Retag(s.ctx, vg, "a", tag, ""))
			name := fmt.Sprintf("b%d", i)
			s.create(vg, name, 4*mib, tag)
			s.must(s.l.Remove(s.ctx, vg, name, tag))
			if left := s.names(vg); left != "a" {
				s.Errorf("with tag %s there is %s", tag, left)
			}
		}
	}},
	{"what is refused here lvm refuses too", func(s *suite) {
		vg := s.newVG(VGOptions{})
		names := []string{"", ".", "..", "-a", "snapshotx", "pvmovex"}
		for _, infix := range strings.Fields("_cdata _cmeta _corig _cpool _cvol _imeta _iorig _mlog _mimage _pmspare " +
			"_rimage _rmeta _tdata _tmeta _vdata _vorigin _wcorig") {
			names = append(names, "a"+infix+"_0")
		}
		var tags []string
		for _, c := range []string{" ", `"`, "@", ",", "~", "é"} {
			names, tags = append(names, "a"+c+"b"), append(tags, "a"+c+"b")
		}
		for _, c := range []string{":", "=", "/", "#"} {
			names = append(names, "a"+c+"b")
		}
		for _, c := range []string{"*", "(", "[", "{", "$", "%"} {
			tags = append(tags, "a"+c+"b")
		}
		for _, name := range names {
			if lvm.CheckLVName(name) == nil {
				s.Errorf("%q is not refused here", name)
			}
			out, err := s.rec.Run(s.ctx, "lvcreate", "-A", "n", "-y", "-W", "y", "-Z", "y", "-n", name, "-L", "4194304b", vg)
			if err != nil || out.Code == 0 {
				s.Errorf("lvcreate -n %q: %d, %v", name, out.Code, err)
			}
		}
		s.create(vg, "a", 4*mib)
		for _, tag := range append(tags, "") {
			if lvm.CheckTag(tag) == nil {
				s.Errorf("tag %q is not refused here", tag)
			}
			out, err := s.rec.Run(s.ctx, "lvchange", "-A", "n", "-y", "--addtag", tag, vg+"/a")
			if err != nil || out.Code == 0 {
				s.Errorf("lvchange --addtag %q: %d, %v", tag, out.Code, err)
			}
		}
	}},
}
