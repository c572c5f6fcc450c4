package lvm

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What can be wrong, for errors.Is. A *CommandError wraps at most one of them.
var (
	// ErrNotFound: a report of the VG succeeded and does not have the LV.
	ErrNotFound = errors.New("logical volume not found")
	// ErrNoVG: LVM looked and has no VG of that name for this host: it saw none and no device failed it meanwhile, or it
	// is another host's (system ID), or several have the name. An unplugged VG looks the same.
	ErrNoVG = errors.New("volume group not found")
	// ErrForeign: the VG is another host's (its system ID says so). It is an ErrNoVG.
	ErrForeign = fmt.Errorf("volume group of another host: %w", ErrNoVG)
	// ErrExists: an LV of that name is there already.
	ErrExists = errors.New("logical volume already exists")
	// ErrNoSpace: too few free extents, or the VG's metadata area is full.
	ErrNoSpace = errors.New("not enough space in the volume group")
	// ErrInUse: the LV is open.
	ErrInUse = errors.New("logical volume is in use")
	// ErrNotLarger: the LV already has the size it was to be extended to, or more.
	ErrNotLarger = errors.New("logical volume is not smaller than that")
	// ErrUnavailable: a PV is missing or unreadable, or the VG is exported.
	ErrUnavailable = errors.New("volume group is not wholly readable")
	// ErrUnknown: a command was started and its outcome was not learnt.
	ErrUnknown = errors.New("outcome of the command is unknown")
)

// CommandError is a command that ran and failed. Its text holds LVM's own error messages.
type CommandError struct {
	Command string // the lvm command, without its arguments
	Code    int    // its exit status
	Log     []Message
	kind    error // one of the above, or nil
}

// Error implements error.
func (e *CommandError) Error() string {
	var texts []string
	for _, m := range e.Log {
		if m.Type == "error" && m.Text != "" {
			texts = append(texts, m.Text)
		}
	}
	if len(texts) == 0 {
		texts = []string{"no message"}
	}
	return fmt.Sprintf("%s exited with %d: %s", e.Command, e.Code, strings.Join(texts, "; "))
}

// Unwrap implements the interface of errors.Is.
func (e *CommandError) Unwrap() error { return e.kind }

// kinds maps the error messages of LVM 2.03 (in the C locale) to what they mean; the first
// match of the first message that matches decides. Nothing here reads as absence of an LV:
// a message is no proof of that.
var kinds = []struct {
	text *regexp.Regexp
	kind error
}{
	{regexp.MustCompile(`(?i)^Logical volume ".*" already exists in volume group `), ErrExists},
	{regexp.MustCompile(`(?i)insufficient (free space|suitable (contiguous )?allocatable extents)`), ErrNoSpace},
	{regexp.MustCompile(`^Volume too large .* for extent size `), ErrNoSpace},
	{regexp.MustCompile(`exceeds maximum metadata size`), ErrNoSpace},
	{regexp.MustCompile(`^New size .* (matches|not larger than) existing size `), ErrNotLarger},
	{regexp.MustCompile(`^No size change\.`), ErrNotLarger}, // 2.03.31, where "matches" is no error any more
	{regexp.MustCompile(`^Logical volume \S+ (in use|contains a filesystem in use|is used by another device)`), ErrInUse},
	{regexp.MustCompile(`^Cannot change VG \S+ while PVs are missing`), ErrUnavailable},
	{regexp.MustCompile(`^Volume group \S+ is exported`), ErrUnavailable},
	{regexp.MustCompile(`^Refusing (activation|refresh) of partial LV `), ErrUnavailable},
	{regexp.MustCompile(`(?i)(error reading device|read failed|write failed|input/output error)`), ErrUnavailable},
	{regexp.MustCompile(`^Volume group ".*" not found`), ErrNoVG},
	{regexp.MustCompile(`^Cannot access VG \S+ with system ID `), ErrForeign},
	{regexp.MustCompile(`^Multiple VGs found with the same name`), ErrNoVG},
}

// failure classifies a command that ran and failed. A device that could not be read
// comes before what LVM concluded from not reading it.
func failure(command string, out Output) error {
	e := &CommandError{Command: command, Code: out.Code, Log: out.Log}
	for _, m := range out.Log {
		if m.Type != "error" && m.Type != "warn" {
			continue
		}
		for _, k := range kinds {
			if m.Type == "warn" && !errors.Is(k.kind, ErrUnavailable) || !k.text.MatchString(m.Text) {
				continue
			}
			if e.kind == nil || errors.Is(k.kind, ErrUnavailable) {
				e.kind = k.kind
			}
			break
		}
	}
	return e
}
