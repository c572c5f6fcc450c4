package lvm

import (
	"errors"
	"strings"
	"testing"
)

// errNone is the kind of a failure that has errNone.
var errNone = errors.New("no kind")

var allKinds = []error{ErrNotFound, ErrNoVG, ErrForeign, ErrExists, ErrNoSpace, ErrInUse, ErrNotLarger, ErrUnavailable, ErrUnknown}

func TestFailureOfCapturedCommands(t *testing.T) {
	want := map[string]error{
		"activate-absent":        errNone,
		"activate-outdated":      ErrUnavailable,
		"activate-partial":       ErrUnavailable,
		"activate-partial-here":  nil,
		"backup":                 nil,
		"create-absurd":          ErrNoSpace,
		"create-bad-name":        errNone,
		"create-exported":        ErrUnavailable,
		"create-foreign":         ErrForeign,
		"create-full":            ErrNoSpace,
		"create-no-space":        ErrNoSpace,
		"create-no-vg":           ErrNoVG,
		"create-outdated":        ErrUnavailable,
		"create-partial":         ErrUnavailable,
		"create-two":             ErrNoVG,
		"deactivate-open":        ErrInUse,
		"exists":                 ErrExists,
		"extend":                 nil,
		"extend-absent":          errNone,
		"extend-no-space":        ErrNoSpace,
		"extend-origin":          errNone,
		"extend-partial":         ErrUnavailable,
		"extend-same":            ErrNotLarger,
		"extend-smaller":         ErrNotLarger,
		"lvcreate":               nil,
		"refresh":                nil,
		"refresh-partial":        ErrUnavailable,
		"remove-absent":          errNone,
		"remove-full":            nil,
		"remove-open":            ErrInUse,
		"remove-selected-absent": nil,
		"remove-selected-no-vg":  ErrNoVG,
		"report-foreign":         ErrForeign,
		"report-no-vg":           ErrNoVG,
		"report-two":             ErrNoVG,
		"retag":                  nil,
		"retag-absent":           errNone,
		"retag-bad-tag":          errNone,
		"retag-full":             ErrNoSpace,
		"retag-partial":          nil,
	}
	eachVersion(t, func(t *testing.T, dir string) {
		got := answers(t, dir)
		for name := range want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s was not captured", name)
			}
		}
		for name, a := range got {
			t.Run(name, func(t *testing.T) {
				want, ok := want[name]
				out := a.output(t)
				switch {
				case !ok:
					t.Error("the test does not know what to expect")
				case (out.Code == 0) != (want == nil):
					t.Errorf("exit status %d, want %v:\n%s", out.Code, want, a.text)
				case want != nil:
					err := failure("lvm", out)
					checkKind(t, err, want)
					if strings.Contains(err.Error(), "no message") {
						t.Errorf("the error says nothing: %v", err)
					}
				}
			})
		}
	})
}

// checkKind checks that err is of the kind wanted and of no other.
func checkKind(t *testing.T, err, want error) {
	t.Helper()
	for _, kind := range allKinds {
		if is := errors.Is(err, kind); is != errors.Is(want, kind) {
			t.Errorf("errors.Is(%q, %q) = %v", err, kind, is)
		}
	}
}

func TestFailure(t *testing.T) {
	e := func(text string) Message { return Message{Type: "error", Text: text} }
	for _, c := range []struct {
		name string
		log  []Message
		want error
	}{
		{"no log", nil, errNone},
		{"an unread device explains that the VG is not found", []Message{
			e(`Volume group "vg0" not found`), {Type: "warn", Text: "Error reading device /dev/sdb at 0 length 4096."},
		}, ErrUnavailable},
		{"the first error decides", []Message{
			e(`Logical Volume "a" already exists in volume group "vg0"`), e("Insufficient free space: 2 extents needed, but only 1 available"),
		}, ErrExists},
		{"a warning of another kind does not count", []Message{
			{Type: "warn", Text: `Volume group "vg0" not found`}, e("Something else."),
		}, errNone},
		{"an absent LV is not proven by a message", []Message{e(`Failed to find logical volume "vg0/a"`)}, errNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := failure("lvcreate", Output{Code: 5, Log: c.log})
			checkKind(t, err, c.want)
		})
	}
}

func TestCommandErrorText(t *testing.T) {
	err := failure("lvcreate", Output{Code: 5, Log: []Message{
		{Type: "warn", Text: "never mind"}, {Type: "error", Text: "first"}, {Type: "error", Text: "second"}, {Type: "status", Text: "failure"},
	}})
	if got, want := err.Error(), "lvcreate exited with 5: first; second"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var e *CommandError
	if !errors.As(err, &e) || e.Code != 5 || len(e.Log) != 4 {
		t.Errorf("%+v", e)
	}
}
