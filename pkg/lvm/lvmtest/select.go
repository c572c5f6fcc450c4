package lvmtest

import (
	"regexp"
	"slices"
	"strings"
)

var term = regexp.MustCompile(`^(\w+)(=|!=)"?([^"]*)"?$`)

// selected finds the LVs of a selection (lvm(8), "SELECTION"): terms of the form field="value" or
// field!=value, joined by &&. ok is false for anything else.
func (v *vg) selected(selection string) (all []*lv, ok bool) {
	all = slices.Clone(v.lvs)
	for text := range strings.SplitSeq(selection, " && ") {
		m := term.FindStringSubmatch(text)
		if m == nil || lvFields[m[1]] == nil {
			return nil, false
		}
		field, equal, value := lvFields[m[1]], m[2] == "=", m[3]
		all = slices.DeleteFunc(all, func(l *lv) bool {
			has := field(v, l)
			// lvm matches a list if one of its items is the value.
			return slices.Contains(strings.Split(has, ","), value) != equal
		})
	}
	return all, true
}
