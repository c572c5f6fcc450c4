package lvm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asLVM is a Process whose lvm is a shell script. $0 is arg, and $@ is the command line.
func asLVM(script, arg string) Process { return Process{Prefix: []string{"sh", "-c", script, arg}} }

func TestProcess(t *testing.T) {
	const failed = `{"log":[{"log_type":"error","log_message":"Insufficient free space: 2 extents needed, but only 1 available"}]}`
	for _, c := range []struct {
		name, script string
		code, log    int
		report       int // bytes of the first report
		unknown      bool
	}{
		{name: "nothing to say", script: `exit 0`},
		{name: "a report", script: `echo '{"report":[{"a":1}],"log":[]}' >&3`, report: 7},
		{name: "a report that no pipe holds", report: 300_000,
			script: `{ printf '{"report":["'; head -c 299998 /dev/zero | tr '\0' a; printf '"]}'; } >&3`},
		{name: "noise that no pipe holds", report: 7,
			script: `head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; echo '{"report":[{"a":1}]}' >&3`},
		{name: "an answer before noise", report: 7,
			script: `echo '{"report":[{"a":1}]}' >&3; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2`},
		{name: "a failure", script: `echo '` + failed + `' >&3; echo noise >&2; exit 5`, code: 5, log: 1},
		{name: "a failure without a log", script: `echo one >&2; echo; echo '  two' >&2; exit 3`, code: 3, log: 2},
		{name: "a success with warnings on stderr", script: `echo one >&2`},
		{name: "killed", script: `kill -9 $$`, unknown: true},
		{name: "killed after its answer", script: `echo '{"report":[{"a":1}]}' >&3; kill -11 $$`, unknown: true},
		{name: "half an answer", script: `echo '{"report":[{"a":1}' >&3`, unknown: true},
		{name: "an answer that is none", script: `echo hello >&3`, unknown: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := asLVM(c.script, "").Run(t.Context(), "fullreport")
			if errors.Is(err, ErrUnknown) != c.unknown || (err != nil) != c.unknown {
				t.Fatalf("error %v", err)
			}
			if c.unknown {
				return
			}
			report := 0
			if len(out.Report) > 0 {
				report = len(out.Report[0])
			}
			if out.Code != c.code || len(out.Log) != c.log || report != c.report {
				t.Errorf("code %d, log %+v, report of %d bytes", out.Code, out.Log, report)
			}
		})
	}
}

func TestProcessIsNotStarted(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	mark := filepath.Join(t.TempDir(), "mark")
	for _, c := range []struct {
		name string
		p    Process
		ctx  context.Context
	}{
		{"no such program", Process{Prefix: []string{"/nonexistent/nsenter"}}, t.Context()},
		{"the context has ended", asLVM(`: >"$0"`, mark), ended},
	} {
		_, err := c.p.Run(c.ctx, "lvcreate")
		if err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}

// A report of a device that hangs: whoever asked is not kept.
func TestProcessIsAbandoned(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := asLVM(`echo $$ >"$0"; exec sleep 1000`, fifo).Run(ctx, "fullreport")
		failed <- err
	}()
	if _, err := os.ReadFile(fifo); err != nil { // returns when it was written to
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	out, err := asLVM(`echo "{\"report\":[\"$LC_ALL $LVM_REPORT_FD $LVM_SUPPRESS_FD_WARNINGS $HOME\"]}" >&3`, "").Run(t.Context(), "fullreport")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out.Report[0]), `"C 3 1 /nonexistent"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestProcessEnvironmentOfTheCaller(t *testing.T) {
	p := asLVM(`echo "{\"report\":[\"$DM_DISABLE_UDEV $LVM_REPORT_FD\"]}" >&3`, "")
	p.Env = []string{"DM_DISABLE_UDEV=1"}
	out, err := p.Run(t.Context(), "fullreport")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out.Report[0]), `"1 3"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A cgroup that refuses the process, or has gone, does not keep lvm from running.
func TestProcessWithoutItsCgroup(t *testing.T) {
	none, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	p := asLVM(`echo '{"report":[{"a":1}]}' >&3`, "")
	p.Cgroup = none
	for range 2 {
		if out, err := p.Run(t.Context(), "fullreport"); err != nil || len(out.Report) != 1 {
			t.Errorf("got %+v, %v", out, err)
		}
	}
	p.Prefix = []string{"/nonexistent/nsenter"}
	if _, err := p.Run(t.Context(), "fullreport"); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestCommandLineWithConfig(t *testing.T) {
	p := Process{Prefix: []string{"nsenter", "--"}, Config: "activation { monitoring=0 }"}
	for args, want := range map[string]string{
		"lvcreate -n a vg0":  "nsenter -- lvm lvcreate --config LOG activation { monitoring=0 } --reportformat json -n a vg0",
		"lvremove -S x vg0":  "nsenter -- lvm lvremove --config log { report_command_log=0 } activation { monitoring=0 } -S x vg0",
		"dmsetup clear x":    "nsenter -- dmsetup clear x",
		"fullreport -S x v0": "nsenter -- lvm fullreport --config LOG activation { monitoring=0 } --reportformat json -S x v0",
	} {
		got := strings.ReplaceAll(strings.Join(p.Words(strings.Fields(args)...), " "), commandLog, "LOG")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"a report", "fullreport --nolocking vg0", "lvm fullreport --config LOG --reportformat json --nolocking vg0"},
		{"a change", "lvcreate -n a vg0", "lvm lvcreate --config LOG --reportformat json -n a vg0"},
		{"a selection", "lvremove -S x vg0", "lvm lvremove --config log { report_command_log=0 } -S x vg0"},
		{"dmsetup", "dmsetup clear x", "dmsetup clear x"},
	} {
		got := strings.ReplaceAll(strings.Join(Process{}.Words(strings.Fields(c.args)...), " "), commandLog, "LOG")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
