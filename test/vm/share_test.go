package vm

import (
	"os"
	"path/filepath"
	"testing"
)

func TestShare(t *testing.T) {
	host, dir := t.TempDir(), filepath.Join(t.TempDir(), "shared")
	program, folder := filepath.Join(host, "prog"), filepath.Join(host, "data")
	write(t, program, "#!/bin/sh\n")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "x"), "x")

	cfg := Config{Program: program, Args: []string{"a b", "", "c\nd"}, Files: []string{folder}}
	if err := share(dir, "WORD", cfg); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"argv": "./prog\x00a b\x00\x00c\nd\x00", "word": "WORD\n", "init.sh": initScript,
		"job/prog": "#!/bin/sh\n", "job/data/x": "x",
	} {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "job/prog")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("program: %v %v, want to be executable", info.Mode(), err)
	}
}

func TestShareRefusesTwoFilesOfOneName(t *testing.T) {
	program := filepath.Join(t.TempDir(), "prog")
	write(t, program, "")
	if err := share(t.TempDir(), "WORD", Config{Program: program, Files: []string{program}}); err == nil {
		t.Error("no error")
	}
}

func TestMakeDisks(t *testing.T) {
	disks, err := makeDisks(t.TempDir(), []int64{1 << 20, 2 << 30})
	if err != nil || len(disks) != 2 {
		t.Fatalf("got %v, %v", disks, err)
	}
	if info, err := os.Stat(disks[1]); err != nil || info.Size() != 2<<30 {
		t.Errorf("second disk: %v, %v", info, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
