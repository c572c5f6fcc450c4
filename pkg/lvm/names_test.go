package lvm

import (
	"strings"
	"testing"
)

func TestCheckNames(t *testing.T) {
	const pvc = "pvc-01234567-89ab-cdef-0123-456789abcdef"
	for _, c := range []struct {
		name   string
		vg, lv bool // is legal as
	}{
		{pvc, true, true},
		{"a", true, true},
		{"A9+_.-", true, true},
		{".a", true, true},
		{"...", true, true},
		{"snapsho", true, true},
		{"a_rmeta", true, false},
		{"x_tdata_0", true, false},
		{"a_rdata", true, true},
		{"snapshot", true, false},
		{"snapshot1", true, false},
		{"pvmove0", true, false},
		{strings.Repeat("a", 55), true, true},
		{strings.Repeat("a", 56), false, true},
		{strings.Repeat("a", 63), false, true},
		{strings.Repeat("a", 64), false, false},
		{"a" + strings.Repeat("-", 27), true, true},
		{"a" + strings.Repeat("-", 28), false, true},
		{"a" + strings.Repeat("-", 31), false, true},
		{"a" + strings.Repeat("-", 32), false, false},
		{"", false, false},
		{".", false, false},
		{"..", false, false},
		{"-a", false, false},
		{"a/b", false, false},
		{"a b", false, false},
		{"a@b", false, false},
		{"a:b", false, false},
		{"a\nb", false, false},
		{"a\x00b", false, false},
		{"a\"b", false, false},
		{"é", false, false},
	} {
		if err := CheckVGName(c.name); (err == nil) != c.vg {
			t.Errorf("CheckVGName(%q): %v", c.name, err)
		}
		if err := CheckLVName(c.name); (err == nil) != c.lv {
			t.Errorf("CheckLVName(%q): %v", c.name, err)
		}
	}
	for _, infix := range reserved {
		if CheckLVName("a"+infix+"b") == nil {
			t.Errorf("%s is accepted", infix)
		}
	}
}

func TestCheckForeign(t *testing.T) {
	const mysql = "mysql-data-volume-for-the-production-cluster-in-frankfurt" // more than 63 bytes with each '-' doubled
	for _, c := range []struct {
		vg, lv string
		legal  bool
	}{
		{"vg0", mysql, true},
		{strings.Repeat("v", 63), strings.Repeat("l", 63), true},
		{strings.Repeat("v", 63), strings.Repeat("l", 64), false},
		{"v", strings.Repeat("l", 125), true},
		{"v", strings.Repeat("-", 63), false},
		{"v", "l" + strings.Repeat("-", 62), true},
		{"v", "l" + strings.Repeat("-", 63), false},
		{"", "a", false},
		{"vg0", "", false},
		{"vg0", "..", false},
		{"..", "a", false},
		{"vg0", "a/b", false},
		{"vg0", "a_rmeta_0", false},
		{"vg0", "snapshot1", false},
	} {
		if err := CheckForeign(c.vg, c.lv); (err == nil) != c.legal {
			t.Errorf("%s/%s: %v", c.vg, c.lv, err)
		}
	}
}

func TestCheckTag(t *testing.T) {
	for _, c := range []struct {
		tag   string
		legal bool
	}{
		{"a", true},
		{"lvm-csi.io/id=vg0/pvc-1:abcdef01", true},
		{"_+./=!:&#-", true},
		{strings.Repeat("a", 1024), true},
		{strings.Repeat("a", 1025), false},
		{"", false},
		{"-a", false},
		{"a b", false},
		{"a@b", false},
		{"a,b", false},
		{"a\"b", false},
		{"a'b", false},
		{"a\nb", false},
		{"é", false},
	} {
		if err := CheckTag(c.tag); (err == nil) != c.legal {
			t.Errorf("CheckTag(%q): %v", c.tag, err)
		}
	}
}

func TestMapperName(t *testing.T) {
	for _, c := range []struct{ vg, lv, want string }{
		{"vg0", "a", "vg0-a"},
		{"my-vg", "pvc-1", "my--vg-pvc--1"},
		{"a", "b-", "a-b--"},
		{"a--b", "c", "a----b-c"},
	} {
		if got := MapperName(c.vg, c.lv); got != c.want {
			t.Errorf("MapperName(%q, %q) = %q", c.vg, c.lv, got)
		}
	}
	longest := MapperName(strings.Repeat("-", MaxVGName/2), strings.Repeat("-", MaxLVName/2)) + "_rmeta_1"
	if len(longest) > 127 {
		t.Errorf("%d bytes", len(longest))
	}
}

func TestSectors(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0b", 1: "512b", 511: "512b", 512: "512b", 513: "1024b", 1 << 30: "1073741824b", 1 << 62: "4611686018427387904b",
	} {
		if got := sectors(n); got != want {
			t.Errorf("sectors(%d) = %s", n, got)
		}
	}
}

func TestMapperUUID(t *testing.T) {
	got := MapperUUID("WE5Al2-qC2A-GZ3V-0lGf-5nkI-Dx7u-sUTpTl", "0oXHl9-3Nyw-MaUe-5pRB-uzNz-KWEm-Q0lHwT")
	if want := "LVM-WE5Al2qC2AGZ3V0lGf5nkIDx7usUTpTl0oXHl93NywMaUe5pRBuzNzKWEmQ0lHwT"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
