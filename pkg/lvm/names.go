package lvm

import (
	"fmt"
	"strings"
)

// Limits of names, in bytes. Device-mapper names hold at most 127 bytes and
// are "<vg>-<lv>" with every '-' of either name doubled, plus up to 8 bytes
// of suffix for a sub-LV ("_rmeta_1"). The two limits below add up to that, measured
// as names are written there, so no pair of legal names can be too long.
const (
	MaxVGName = 55
	MaxLVName = 63
)

// reserved are the infixes that LVM keeps for the LVs it makes itself (lvm(8),
// "VALID NAMES", and lib/misc/lvm-string.c of LVM 2.03).
var reserved = []string{
	"_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_imeta", "_iorig", "_mlog", "_mimage", "_pmspare",
	"_rimage", "_rmeta", "_tdata", "_tmeta", "_tpool", "_vdata", "_vorigin", "_vpool", "_wcorig",
}

// CheckVGName says why name cannot be the name of a VG of ours, or returns nil.
func CheckVGName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("volume group name %q %w", name, err)
	}
	if mapped(name) > MaxVGName {
		return fmt.Errorf("volume group name %q is longer than %d bytes (each '-' counts twice)", name, MaxVGName)
	}
	return nil
}

// CheckLVName says why name cannot be the name of an LV of ours, or returns nil.
func CheckLVName(name string) error {
	err := checkName(name)
	switch {
	case err != nil:
		return fmt.Errorf("logical volume name %q %w", name, err)
	case mapped(name) > MaxLVName:
		return fmt.Errorf("logical volume name %q is longer than %d bytes (each '-' counts twice)", name, MaxLVName)
	}
	if err := checkReserved(name); err != nil {
		return fmt.Errorf("logical volume name %q %w", name, err)
	}
	return nil
}

// CheckForeign says why vg and lv cannot be the names of an LV that somebody else made, or returns nil. Such names are held to the
// limits of LVM (NAME_LEN) and of device-mapper (DM_NAME_LEN), not to ours.
func CheckForeign(vg, lv string) error {
	if err := checkName(vg); err != nil {
		return fmt.Errorf("volume group name %q %w", vg, err)
	}
	err := checkName(lv)
	if err == nil {
		err = checkReserved(lv)
	}
	switch {
	case err != nil:
		return fmt.Errorf("logical volume name %q %w", lv, err)
	case len(MapperName(vg, lv)) > maxMapperName: // so neither is longer than LVM's 127 bytes
		return fmt.Errorf("name %q is longer than %d bytes as device-mapper writes it (each '-' of the two names counts twice)", vg+"/"+lv, maxMapperName)
	}
	return nil
}

// maxMapperName is what device-mapper takes, in bytes.
const maxMapperName = 127

// checkReserved says which part of an LV name LVM reserves.
func checkReserved(name string) error {
	if strings.HasPrefix(name, "snapshot") || strings.HasPrefix(name, "pvmove") {
		return fmt.Errorf("starts with a word that LVM reserves")
	}
	for _, r := range reserved {
		if strings.Contains(name, r) {
			return fmt.Errorf("contains %q, which LVM reserves", r)
		}
	}
	return nil
}

// checkName holds what is true of VG and LV names alike (lvm(8), "VALID NAMES").
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case name == "." || name == "..":
		return fmt.Errorf("is a path, not a name")
	case name[0] == '-':
		return fmt.Errorf("starts with '-'")
	}
	for _, c := range []byte(name) {
		if !isAlnum(c) && strings.IndexByte("+_.-", c) < 0 {
			return fmt.Errorf("contains %q; LVM takes a-z A-Z 0-9 + _ . -", c)
		}
	}
	return nil
}

// MaxTag is the longest tag LVM takes, in bytes.
const MaxTag = 1024

// CheckTag says why tag cannot be an LVM tag, or returns nil.
func CheckTag(tag string) error {
	if tag == "" || len(tag) > MaxTag || tag[0] == '-' {
		return fmt.Errorf("tag %q must have 1 to %d bytes and not start with '-'", tag, MaxTag)
	}
	for _, c := range []byte(tag) {
		if !isAlnum(c) && strings.IndexByte("_+.-/=!:&#", c) < 0 {
			return fmt.Errorf("tag %q contains %q; LVM takes a-z A-Z 0-9 and _+.-/=!:&#", tag, c)
		}
	}
	return nil
}

// MapperName is the device-mapper name of an LV: "<vg>-<lv>" with each '-' of
// either doubled. Its device node is /dev/mapper/<MapperName>.
func MapperName(vg, lv string) string {
	return strings.ReplaceAll(vg, "-", "--") + "-" + strings.ReplaceAll(lv, "-", "--")
}

// MapperUUID is the device-mapper UUID of a visible LV: "LVM-" and the UUIDs of the VG and of the LV, each without its '-'.
func MapperUUID(vg, lv string) string {
	return "LVM-" + strings.ReplaceAll(vg+lv, "-", "")
}

// mapped is the length of name as written in a device-mapper name.
func mapped(name string) int { return len(name) + strings.Count(name, "-") }

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
