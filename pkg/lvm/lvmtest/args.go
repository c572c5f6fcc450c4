package lvmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// command is a command line that lvm would accept.
type command struct {
	name    string
	options []option
	vg, lv  string // what it works on; lv is "" for a whole VG
}

type option struct{ flag, value string }

func (c command) has(flag string) bool {
	return slices.ContainsFunc(c.options, func(o option) bool { return o.flag == flag })
}

func (c command) value(flag string) string {
	if all := c.values(flag); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (c command) values(flag string) []string {
	var all []string
	for _, o := range c.options {
		if o.flag == flag {
			all = append(all, o.value)
		}
	}
	return all
}

// changes reports whether LVM takes the VG's lock for writing.
func (c command) changes() bool { return c.name != "fullreport" }

// grammar is the part of lvm that pkg/lvm uses: the options of each command, and whether each has a value. Anything else
// is a usage error, as an unknown option is with lvm; what pkg/lvm comes to use is added here.
var grammar = map[string]struct {
	options map[string]bool
	target  string
}{
	"fullreport": {map[string]bool{
		"--units": true, "--nosuffix": false, "--binary": false, "--configreport": true, "-o": true, "--nolocking": false,
	}, "[vg]"},
	"lvcreate": {map[string]bool{
		"-A": true, "-y": false, "-W": true, "-Z": true, "-n": true, "-L": true, "--addtag": true,
	}, "vg"},
	"lvextend": {map[string]bool{"-A": true, "-y": false, "-L": true}, "vg/lv"},
	"lvchange": {map[string]bool{
		"-A": true, "-y": false, "-a": true, "--addtag": true, "--deltag": true, "--refresh": false,
	}, "vg/lv"},
	"lvremove":    {map[string]bool{"-A": true, "-y": false, "-S": true}, "vg or vg/lv"},
	"vgcfgbackup": {nil, "vg"},
	"dmsetup":     {nil, "device"},
}

// parse reads a command line. If it is wrong, it returns what lvm answers then: exit status 3, and words on stderr.
func parse(args []string) (command, *lvm.Output) {
	c := command{name: args[0]}
	g, known := grammar[c.name]
	if !known {
		return c, &lvm.Output{Code: 2, Log: plain("No such command.  Try 'lvm help'.")}
	}
	var targets []string
	for words := args[1:]; len(words) > 0; words = words[1:] {
		word := words[0]
		if !strings.HasPrefix(word, "-") {
			targets = append(targets, word)
			continue
		}
		hasValue, known := g.options[word]
		switch {
		case !known:
			return c, usage("%s: unrecognized option '%s'", c.name, word)
		case !hasValue:
			c.options = append(c.options, option{flag: word})
		case len(words) == 1:
			return c, usage("%s: option '%s' requires an argument", c.name, word)
		default:
			c.options = append(c.options, option{word, words[1]})
			words = words[1:]
		}
	}
	if !c.aim(g.target, targets) {
		return c, usage("Incorrect arguments for %s: %q", c.name, targets)
	}
	return c, c.validate()
}

// aim finds what the command works on.
func (c *command) aim(want string, targets []string) bool {
	if want == "device" {
		if len(targets) != 2 || targets[0] != "clear" && targets[0] != "resume" {
			return false
		}
		c.options = append(c.options, option{flag: targets[0]})
		c.vg, c.lv = unmapped(targets[1])
		return true
	}
	if len(targets) == 0 {
		return want == "[vg]"
	}
	vg, lv, both := strings.Cut(targets[0], "/")
	c.vg, c.lv = vg, lv
	if len(targets) != 1 || vg == "" || both && lv == "" {
		return false
	}
	switch want {
	case "vg/lv":
		return both
	case "vg or vg/lv":
		return both != c.has("-S") // without either, lvremove removes all
	}
	return !both
}

// unmapped splits a device-mapper name: the '-' that stands alone is the one between VG and LV.
func unmapped(name string) (vg, lv string) {
	for i := 0; i < len(name); i++ {
		if name[i] != '-' {
			continue
		}
		if i+1 < len(name) && name[i+1] == '-' {
			i++
			continue
		}
		single := func(s string) string { return strings.ReplaceAll(s, "--", "-") }
		return single(name[:i]), single(name[i+1:])
	}
	return "", name
}

// validate checks the values that lvm checks before it looks at any VG.
func (c command) validate() *lvm.Output {
	for _, flag := range []string{"--addtag", "--deltag"} {
		for _, tag := range c.values(flag) {
			if !onlyHas(tag, "_+.-/=!:&#") || tag == "" {
				return usage("Invalid argument for %s: %s", flag, tag)
			}
		}
	}
	switch c.name {
	case "lvcreate":
		if fail := checkName(c.value("-n")); fail != nil {
			return fail
		}
		if n, ok := bytesOf(c.value("-L")); !ok || n == 0 {
			return usage("--size may not be zero.")
		}
	case "lvextend":
		if _, ok := bytesOf(c.value("-L")); !ok {
			return usage("Invalid argument for --size: %s", c.value("-L"))
		}
	case "lvchange":
		if a := c.value("-a"); a != "" && a != "y" && a != "n" {
			return usage("Invalid argument for --activate: %s", a)
		}
	case "fullreport":
		if c.value("--units") != "b" || !c.has("--nosuffix") || !c.has("--binary") {
			panic("lvmtest: the fake answers only with --units b --nosuffix --binary")
		}
	}
	return nil
}

// bytesOf reads a size as pkg/lvm writes it, "1024b".
func bytesOf(size string) (n int64, ok bool) {
	var unit string
	_, err := fmt.Sscanf(size, "%d%s", &n, &unit)
	return n, err == nil && unit == "b" && n >= 0 && n%512 == 0
}

// checkName is what lvcreate demands of a name (lib/misc/lvm-string.c).
func checkName(name string) *lvm.Output {
	if name == "" || name == "." || name == ".." || name[0] == '-' || !onlyHas(name, "+_.-") || len(name) > 127 {
		return usage("Logical volume name %q is invalid.", name)
	}
	for _, prefix := range []string{"snapshot", "pvmove"} {
		if strings.HasPrefix(name, prefix) {
			return usage("Names starting %q are reserved. Please choose a different LV name.", prefix)
		}
	}
	for _, infix := range strings.Fields("_cdata _cmeta _corig _cpool _cvol _imeta _iorig _mimage _mlog _pmspare _rimage _rmeta _tdata _tmeta _vdata _vorigin _wcorig") {
		if strings.Contains(name, infix) {
			return usage("Names including %q are reserved. Please choose a different LV name.", infix)
		}
	}
	return nil
}

func onlyHas(s, others string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func usage(format string, a ...any) *lvm.Output {
	return &lvm.Output{Code: 3, Log: plain(fmt.Sprintf(format, a...))}
}

// plain is what the runner makes of words on stderr: messages about nothing in particular.
func plain(lines ...string) []lvm.Message {
	var log []lvm.Message
	for _, line := range lines {
		log = append(log, lvm.Message{Type: "error", Text: line})
	}
	return log
}
