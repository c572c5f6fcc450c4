package lvmtest

import (
	"fmt"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// answer gathers what one command says, as real lvm was seen to say it.
type answer struct {
	out     lvm.Output
	selects bool   // a selection: the runner gets no log from it, only words on stderr
	vg, lv  string // what the messages are about
	bad     bool
}

func (a *answer) say(kind, errno, format string, args ...any) {
	m := lvm.Message{Type: kind, Context: "processing", Object: "vg", Name: a.vg, Text: fmt.Sprintf(format, args...), Errno: errno, Code: "0"}
	if a.lv != "" {
		m.Object, m.Name, m.Group = "lv", a.lv, a.vg
	}
	a.out.Log = append(a.out.Log, m)
}

func (a *answer) print(format string, args ...any) { a.say("print", "0", format, args...) }

func (a *answer) fail(format string, args ...any) {
	a.say("error", "-1", format, args...)
	a.failed()
}

func (a *answer) failed() { a.bad = true }

// commit writes the metadata if it fits. The caller undoes its change if not.
func (a *answer) commit(v *vg) bool {
	used, most := v.metadataUsed(), v.metadataMax()
	if used > most {
		a.fail("VG %s %d metadata on %s (%d bytes) exceeds maximum metadata size (%d bytes)", v.name, v.seqno+1, v.pvs[0].name, used, most)
		a.fail("Failed to write VG %s.", v.name)
		return false
	}
	v.commit()
	a.say("warn", "0", "WARNING: This metadata update is NOT backed up.")
	return true
}

func (a *answer) refusePartial(v *vg) {
	a.fail("Cannot change VG %s while PVs are missing.", v.name)
	a.fail("See vgreduce --removemissing and vgextend --restoremissing.")
	a.fail("Cannot process volume group %s", v.name)
}

// finish is the answer as the runner returns it.
func (a *answer) finish() lvm.Output {
	if a.bad {
		a.out.Code = 5
		a.say("status", "-1", "failure")
		a.out.Log[len(a.out.Log)-1].Code = "5"
	}
	if !a.selects {
		return a.out
	}
	var lines []string
	for _, m := range a.out.Log {
		if a.bad && m.Type == "error" {
			lines = append(lines, m.Text)
		}
	}
	a.out.Log = plain(lines...)
	return a.out
}

// noVG is what any command answers of a VG that LVM does not find.
func noVG(name string) lvm.Output {
	a := answer{vg: name}
	a.fail("Volume group %q not found", name)
	a.fail("Cannot process volume group %s", name)
	return a.finish()
}

// foreign is what any command answers of a VG with the system ID of another host.
func foreign(v *vg) lvm.Output {
	a := answer{vg: v.name}
	for range 2 {
		a.fail("Cannot access VG %s with system ID %s with unknown local system ID.", v.name, v.systemID)
	}
	return a.finish()
}

// missingWarnings go before the answer of every command on a VG that lacks a PV.
func missingWarnings(v *vg) []lvm.Message {
	a := answer{vg: v.name}
	for _, p := range v.pvs {
		switch {
		case p.unplugged:
			a.say("warn", "0", "WARNING: Couldn't find device with uuid %s.", p.uuid)
			a.say("warn", "0", "WARNING: VG %s is missing PV %s (last written to %s).", v.name, p.uuid, p.name)
		case p.outdated:
			a.say("warn", "0", "WARNING: VG %s was previously updated while PV %s was missing.", v.name, p.name)
			a.say("warn", "0", "WARNING: VG %s was missing PV %s %s.", v.name, p.name, p.uuid)
		}
	}
	return a.out.Log
}

// human writes a size as lvm's messages do.
func human(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	size, unit := float64(n)/1024, 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.2f %s", size, units[unit])
}
