package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeTools makes a Linux whose tools are scripts. Each notes its words in the file that calls reads.
func fakeTools(t *testing.T, scripts map[string]string) (l *Linux, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	for name, script := range scripts {
		text := "#!/bin/sh\n{ printf %s " + name + "; printf ' [%s]' \"$@\"; echo; } >> " + log + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a script
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return New(nil), func() []string {
		data, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}
}

func TestToolErrors(t *testing.T) {
	l, _ := fakeTools(t, map[string]string{
		"loud":   `for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i >&2; done; echo out; exit 7`,
		"silent": `exit 3`,
		"killed": `kill -9 $$`,
		"locale": `echo "$LC_ALL"`,
	})
	for _, test := range []struct {
		tool string
		code int
		want string
	}{
		{"loud", 7, "loud exited with 7: line 1; line 2; line 3; line 4; …; line 8; line 9; line 10; out"},
		{"silent", 3, "silent exited with 3: no message"},
		{"killed", -1, "killed was ended by a signal: no message"},
	} {
		_, _, err := l.tool(t.Context(), test.tool)
		if err == nil || err.Error() != test.want || exitCode(err) != test.code {
			t.Errorf("%s: %v (code %d), want %s", test.tool, err, exitCode(err), test.want)
		}
	}
	if out, _, err := l.tool(t.Context(), "locale"); err != nil || out != "C\n" {
		t.Errorf("the locale is %q, %v", out, err)
	}
	if _, _, err := l.tool(t.Context(), "no-such-tool"); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Errorf("a tool that is not there: %v", err)
	}
}

func TestPrefix(t *testing.T) {
	l, calls := fakeTools(t, map[string]string{"enter": `shift 2; exec "$@"`, "e2fsck": "exit 8"})
	l.prefix = []string{"enter", "-t", "1"}
	_, _, err := l.tool(t.Context(), "e2fsck", "-p", "dev")
	if err == nil || !strings.HasPrefix(err.Error(), "e2fsck exited with 8") {
		t.Errorf("error is %v", err)
	}
	if got := calls()[0]; got != "enter [-t] [1] [e2fsck] [-p] [dev]" {
		t.Errorf("ran %s", got)
	}
}

func TestToolEndsWithItsContext(t *testing.T) {
	l, _ := fakeTools(t, map[string]string{"slow": "sleep 60 & wait"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, _, err := l.tool(ctx, "slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if d := time.Since(start); d > gracePeriod/2 {
		t.Errorf("took %s: its child was not stopped", d)
	}
}

func TestStubbornToolIsLeftBehind(t *testing.T) {
	l, _ := fakeTools(t, map[string]string{"deaf": "trap '' TERM; for i in 1 2 3 4 5 6 7 8; do sleep 0.5; done"})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, _, err := l.tool(ctx, "deaf"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if d := time.Since(start); d > 2*gracePeriod {
		t.Errorf("took %s", d)
	}
}

func TestMountWords(t *testing.T) {
	const context = `context="system_u:object_r:container_file_t:s0:c1,c2"`
	dev := Device{Path: "/dev/mapper/vg-a"}
	for _, test := range []struct {
		name    string
		options []string
		want    string
	}{
		{"none", nil, "mount [-w] [-t] [xfs] [/dev/mapper/vg-a] [/a b,c]"},
		{"read-only", []string{"noatime", "ro"}, "mount [-t] [xfs] [-o] [noatime,ro] [/dev/mapper/vg-a] [/a b,c]"},
		{"quotes", []string{"noatime", context}, "mount [-w] [-t] [xfs] [-o] [noatime," + context + "] [/dev/mapper/vg-a] [/a b,c]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, calls := fakeTools(t, map[string]string{"mount": ""})
			if _, _, err := run(t.Context(), mountWords(dev, "xfs", "/a b,c", test.options)...); err != nil {
				t.Fatal(err)
			}
			if got := calls()[0]; got != test.want {
				t.Errorf("ran  %s\nwant %s", got, test.want)
			}
		})
	}
}

// regular makes a device of an ordinary file for what only opens and reads it.
func regular(t *testing.T, l *Linux, size int64) Device {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	l.identify = func(*os.File) (string, error) { return "253:1", nil }
	l.number = func(string) (string, error) { return "253:1", nil }
	l.sys = t.TempDir()
	return Device{Path: path, ID: "253:1", Size: size}
}

func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name, script, want, err string
	}{
		{"ext4", "echo DEVNAME=/dev/x; echo UUID=1; echo TYPE=ext4; echo USAGE=filesystem", "ext4", ""},
		{"blank", "exit 2", "", ""},
		{"partition table", "echo DEVNAME=/dev/x; echo PTUUID=1; echo PTTYPE=dos", "", ""},
		{"cannot open", "echo 'blkid: error: /dev/x: No such device' >&2; exit 2", "", "No such device"},
		{"ambivalent", "exit 8", "", "more than one"},
		{"usage", "exit 4", "", "exited with 4"},
		{"killed", "kill -9 $$", "", "signal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, calls := fakeTools(t, map[string]string{"blkid": test.script})
			dev := regular(t, l, 8<<20)
			got, err := l.Probe(t.Context(), dev)
			if got != test.want || fmt.Sprint(err) == test.err || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.err)
			}
			want := "blkid [-p] [-u] [filesystem,crypto,other] [-o] [export] [" + dev.Path + "]"
			if c := calls(); len(c) != 1 || c[0] != want {
				t.Errorf("ran %q", c)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		fsType string
		code   int
		err    string // "" for none
	}{
		{"ext4", 0, ""},
		{"ext4", 1, ""},
		{"ext4", 2, ""},
		{"ext4", 3, ""},
		{"ext4", 4, `run "e2fsck `},
		{"ext4", 6, `run "e2fsck `},
		{"ext4", 8, "exited with 8: its words"},
		{"ext4", 12, "exited with 12"},
		{"ext4", 32, "exited with 32"},
		{"xfs", 4, ""},
		{"btrfs", 4, ""},
	} {
		t.Run(fmt.Sprint(test.fsType, test.code), func(t *testing.T) {
			l, calls := fakeTools(t, map[string]string{"e2fsck": fmt.Sprintf("echo its words; exit %d", test.code)})
			err := l.Check(t.Context(), regular(t, l, 8<<20), test.fsType)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error is %v, want %q", err, test.err)
			}
			if ran := calls()[0] != ""; ran != (test.fsType == "ext4") {
				t.Errorf("ran %q", calls())
			}
		})
	}
}
