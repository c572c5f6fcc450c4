package mounter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVGOf(t *testing.T) {
	for name, want := range map[string]string{"vg0-root": "vg0", "my--vg-root--fs": "my-vg", "a----b-c": "a--b", "vg0": "vg0",
		"a---b": "a-", "a----b--c-d": "a--b-c", "vg0-lv--1-real": "vg0"} {
		if got := vgOf(name); got != want {
			t.Errorf("%s is of VG %q, want %q", name, got, want)
		}
	}
}

// TestVGsUnder: root on LUKS on an LV on RAID of a partition: the LV below is found, through as many layers as there are.
func TestVGsUnder(t *testing.T) {
	sys := t.TempDir()
	device := func(dir, uuid, name string) string {
		dir = filepath.Join(sys, dir)
		if err := os.MkdirAll(filepath.Join(dir, "dm"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"dm/uuid": uuid, "dm/name": name} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	crypt := device("crypt", "CRYPT-LUKS2-1", "root_crypt")
	device("crypt/slaves/dm-1", "LVM-abc", "sys--vg-root")
	if diff := cmp.Diff([]string{"sys-vg"}, vgsUnder(crypt)); diff != "" {
		t.Error(diff)
	}
	if got := vgsUnder(filepath.Join(sys, "sda1")); got != nil {
		t.Errorf("a plain partition is on %v", got)
	}
}

func TestSwaps(t *testing.T) {
	table := filepath.Join(t.TempDir(), "swaps")
	if got, err := swapsOf(table); err != nil || got != nil { // CONFIG_SWAP=n
		t.Errorf("a kernel without swap: %q, %v", got, err)
	}
	text := "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/dm-1                               partition\t1048572\t\t0\t\t-2\n"
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := swapsOf(table); err != nil || len(got) != 1 || got[0] != "/dev/dm-1" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := swapsOf(t.TempDir()); err == nil {
		t.Error("a table that cannot be read is no error")
	}
}

func TestActiveVGs(t *testing.T) {
	l, add, _ := fakeSys(t)
	if got, err := l.ActiveVGs(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without devices: %q, %v", got, err)
	}
	add("253:0", "vg0-a", "LVM-1", "0")
	add("253:1", "vg0-b", "LVM-2", "1")
	add("253:2", "my--vg-pvc--1", "LVM-3", "0")
	add("253:3", "luks-x", "CRYPT-LUKS2-1", "0")
	got, err := l.ActiveVGs(t.Context())
	if diff := cmp.Diff([]string{"my-vg", "vg0"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestSystemVGs reads this machine: whatever it has, that is no error.
func TestSystemVGs(t *testing.T) {
	if _, err := SystemVGs(); err != nil {
		t.Error(err)
	}
}
