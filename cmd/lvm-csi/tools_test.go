package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// procOf makes a /proc that has the links and files of a process in that place.
func procOf(t *testing.T, links map[string]string, files ...string) string {
	t.Helper()
	proc := t.TempDir()
	for name, to := range links {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		name, content, _ := strings.Cut(file, "=")
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// namespaces are the links of /proc for a process in the named namespaces; those of process 1 are mnt:[1], ipc:[1] and pid.
func namespaces(mnt, ipc, pid string) map[string]string {
	return map[string]string{"1/ns/mnt": "mnt:[1]", "1/ns/ipc": "ipc:[1]", "self/ns/mnt": mnt, "self/ns/ipc": ipc, "self/ns/pid": pid}
}

func TestChooseTools(t *testing.T) {
	const udevd, nestedPIDs = "1/root/run/udev/control", "pid:[4026532000]"
	bare := namespaces("mnt:[1]", "ipc:[1]", initialPIDs)
	pod := namespaces("mnt:[2]", "ipc:[2]", initialPIDs)
	podWithIPC := namespaces("mnt:[2]", "ipc:[1]", initialPIDs)
	nested := namespaces("mnt:[2]", "ipc:[2]", nestedPIDs) // hostPID on a node that is a container
	alone := namespaces("mnt:[1]", "ipc:[1]", nestedPIDs)

	nsenter := tools{lvm: lvm.Process{Prefix: []string{"nsenter", "--target", "1", "--mount", "--ipc", "--"}},
		prefix: []string{"nsenter", "--target", "1", "--mount", "--ipc", "--"}}
	unmonitored := lvm.Process{Config: "activation { monitoring=0 }"}
	withoutUdev := unmonitored
	withoutUdev.Env = []string{"DM_DISABLE_UDEV=1"}
	for name, tc := range map[string]struct {
		kind  string
		links map[string]string
		files []string
		pid   int
		want  tools
		fails string
	}{
		"host, on a bare host":                {kind: hostTools, links: bare, files: []string{udevd, "1/comm=systemd"}},
		"image, on a bare host":               {kind: imageTools, links: bare},
		"host, in a pod":                      {kind: hostTools, links: pod, files: []string{udevd}, want: nsenter},
		"host, in a pod of a nested node":     {kind: hostTools, links: nested, want: nsenter},
		"image, in a pod":                     {kind: imageTools, links: podWithIPC, files: []string{udevd}, want: tools{lvm: unmonitored}},
		"image, without udevd":                {kind: imageTools, links: pod, want: tools{lvm: withoutUdev}},
		"image, without hostIPC":              {kind: imageTools, links: pod, files: []string{udevd}, fails: "--tools=image needs hostIPC: true"},
		"host, without hostPID":               {kind: hostTools, links: alone, pid: 1, fails: "--tools=host needs hostPID: true"},
		"host, below an init of the image":    {kind: hostTools, links: alone, pid: 7, fails: "--tools=host needs hostPID: true"},
		"host, with shareProcessNamespace":    {kind: hostTools, links: nested, files: []string{"1/comm=pause\n"}, fails: "needs hostPID: true"},
		"image, without hostPID":              {kind: imageTools, links: alone, pid: 1, fails: "--tools=image needs hostPID: true"},
		"host, without the right to look":     {kind: hostTools, fails: "privileged: true"},
		"none, without the right to look":     {kind: noTools},
		"none, in a pod that is not the host": {kind: noTools, links: alone, pid: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.pid == 0 {
				tc.pid = 4711
			}
			proc := procOf(t, tc.links, tc.files...)
			for range 2 {
				got, err := chooseTools(tc.kind, proc, tc.pid)
				if (err != nil) != (tc.fails != "") || err != nil && (!strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "\n")) {
					t.Fatalf("error %v, want one line with %q", err, tc.fails)
				}
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(tools{}, os.File{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A node without cgroup2, and a folder that only looks like one, leave lvm where it was.
func TestNoCgroup(t *testing.T) {
	for name, root := range map[string]string{"none": filepath.Join(t.TempDir(), "none"), "not cgroup2": t.TempDir()} {
		if f, err := ownCgroup(root, "/bin/true"); err == nil || f != nil {
			t.Errorf("%s: no error", name)
		}
	}
	pod := procOf(t, namespaces("mnt:[2]", "ipc:[2]", initialPIDs))
	var got tools
	got.useOwnCgroup(pod, 4711)
	if got.lvm.Cgroup != nil {
		t.Error("a cgroup that is none")
	}
}
