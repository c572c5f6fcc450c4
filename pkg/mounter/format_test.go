package mounter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMkfsWords(t *testing.T) {
	for _, test := range []struct {
		name, fsType string
		version      string
		options      string
		want         string
	}{
		{"ext4 of bullseye", "ext4", "mke2fs 1.46.2 (28-Feb-2021)\n\tUsing EXT2FS Library version 1.46.2", "", "mkfs.ext4 -F -q -m 0 -E nodiscard"},
		{"ext4 of bookworm", "ext4", "mke2fs 1.47.0 (5-Feb-2023)", "-i 65536", "mkfs.ext4 -F -q -m 0 -E nodiscard -O ^orphan_file -i 65536"},
		{"ext4, decided by the caller", "ext4", "mke2fs 1.47.2 (1-Jan-2025)", "-O orphan_file", "mkfs.ext4 -F -q -m 0 -E nodiscard -O orphan_file"},
		{"xfs of bullseye", "xfs", "mkfs.xfs version 5.10.0", "", "mkfs.xfs -f -q -K"},
		{"xfs of bookworm", "xfs", "mkfs.xfs version 6.1.0", "", "mkfs.xfs -f -q -K -i nrext64=0"},
		{"xfs of trixie", "xfs", "mkfs.xfs version 6.13.0", "", "mkfs.xfs -f -q -K -i nrext64=0 -i exchange=0 -n parent=0 -m metadir=0"},
		{"xfs, decided by the caller", "xfs", "mkfs.xfs version 6.13.0", "-i size=1024,nrext64=1", "mkfs.xfs -f -q -K -i exchange=0 -n parent=0 -m metadir=0 -i size=1024,nrext64=1"},
		{"xfs, a file of the caller's", "xfs", "mkfs.xfs version 6.13.0", "-c options=/etc/x", "mkfs.xfs -f -q -K -c options=/etc/x"},
		{"btrfs of bullseye", "btrfs", "mkfs.btrfs, part of btrfs-progs v5.10.1 ", "", "mkfs.btrfs -f -q -K"},
		{"btrfs of trixie", "btrfs", "mkfs.btrfs, part of btrfs-progs v6.14", "-n 32k", "mkfs.btrfs -f -q -K -O ^block-group-tree -n 32k"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := parseVersion(test.version)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(makers[test.fsType].commandLine(v, strings.Fields(test.options)), " ")
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if _, err := parseVersion("mkfs.xfs: not found"); err == nil {
		t.Error("a version where there is none")
	}
}

func TestFormat(t *testing.T) {
	const version = `if [ "$1" = -V ]; then echo mkfs.x version 6.1.0; exit; fi` + "\n"
	const dry = `case "$*" in *" -N "*|*" -n "*) `
	for _, test := range []struct {
		name, fsType, script, found string
		options                     string
		bad                         bool
		err                         string
	}{
		{name: "fine", fsType: "xfs", found: "xfs"},
		{name: "refused words", fsType: "xfs", script: `case "$*" in *oops*) echo unknown word oops >&2; echo Usage: >&2; echo more >&2; exit 1;; esac`,
			options: "-i oops", bad: true, err: "the options are refused: mkfs.xfs: unknown word oops; Usage:"},
		{name: "too small, innocent words", fsType: "ext4", script: "echo too small >&2; exit 1", options: "-i 65536", err: "too small"},
		{name: "failed writing, with words", fsType: "xfs", script: dry + "exit 0;; esac; echo write failed >&2; exit 1", options: "-s size=4096", err: "write failed"},
		{name: "failed without words", fsType: "xfs", script: "echo no >&2; exit 1", err: "mkfs.xfs exited with 1: no"},
		{name: "btrfs, an option", fsType: "btrfs", script: "echo \"mkfs.btrfs: unrecognized option '--bad'\" >&2; exit 1", options: "--bad", bad: true, err: "--bad"},
		{name: "btrfs, a feature", fsType: "btrfs", script: "echo \"ERROR: unrecognized filesystem feature 'x'\" >&2; exit 1", options: "-O x", bad: true, err: "feature"},
		{name: "btrfs, a device", fsType: "btrfs", script: "echo 'ERROR: error during mkfs: Input/output error' >&2; exit 1", options: "-n 32k", err: "output error"},
		{name: "nothing done", fsType: "xfs", options: "-N", bad: true, err: `holds "" afterwards`},
		{name: "something else made", fsType: "ext4", found: "ext2", options: "-t ext2", bad: true, err: `"ext2"`},
		{name: "second device", fsType: "btrfs", options: "-n 32k /dev/sdz", bad: true, err: `"/dev/sdz" names a device`},
		{name: "unknown", fsType: "zfs", err: `no mkfs for filesystem "zfs"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			blkid := "exit 2"
			if test.found != "" {
				blkid = "echo TYPE=" + test.found
			}
			l, _ := fakeTools(t, map[string]string{"mkfs." + test.fsType: version + test.script, "blkid": blkid})
			err := l.Format(t.Context(), regular(t, l, 8<<20), test.fsType, strings.Fields(test.options))
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || errors.Is(err, ErrBadOptions) != test.bad {
				t.Errorf("error is %v; want %q, refused options: %t", err, test.err, test.bad)
			}
		})
	}
}

// The version is asked for once, and again after a failure.
func TestMkfsVersionIsKept(t *testing.T) {
	l, calls := fakeTools(t, map[string]string{"mkfs.xfs": `case "$*" in *-V*) echo mkfs.xfs version 6.1.0;; *) [ ! -e "$0.fail" ];; esac`})
	dev := regular(t, l, 8<<20)
	format := func() string {
		before := len(calls())
		err := l.Format(t.Context(), dev, "xfs", nil)
		return fmt.Sprint(len(calls())-before, " ", err == nil)
	}
	format() // the first
	if got := format(); got != "1 true" {
		t.Errorf("the second: %s", got)
	}
	tool, err := exec.LookPath("mkfs.xfs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool+".fail", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := format(); got != "1 false" {
		t.Errorf("the failing one: %s", got)
	}
	if err := os.Remove(tool + ".fail"); err != nil {
		t.Fatal(err)
	}
	if got := format(); got != "2 true" {
		t.Errorf("the one after: %s", got)
	}
}
