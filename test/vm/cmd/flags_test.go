package main

import (
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Setenv("VM_SUITE", "trixie")
	cfg, err := parse([]string{
		"-disks", "2x4G,512M", "-env", "A=b=c", "-file", "x", "-file", "y",
		"-idle", "5s", "--", "prog", "-test.v", "a b",
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Spec.Suite != "trixie" {
		t.Errorf("suite %q, want VM_SUITE's", cfg.Spec.Suite)
	}
	if want := []int64{4 << 30, 4 << 30, 512 << 20}; !slices.Equal(cfg.Disks, want) {
		t.Errorf("disks %v, want %v", cfg.Disks, want)
	}
	if cfg.Program != "prog" || !slices.Equal(cfg.Args, []string{"-test.v", "a b"}) {
		t.Errorf("program %q %q", cfg.Program, cfg.Args)
	}
	if !slices.Equal(cfg.Env, []string{"A=b=c"}) || !slices.Equal(cfg.Files, []string{"x", "y"}) {
		t.Errorf("env %q, files %q", cfg.Env, cfg.Files)
	}
	if cfg.Idle != 5*time.Second || cfg.Timeout != 20*time.Minute {
		t.Errorf("idle %v, timeout %v", cfg.Idle, cfg.Timeout)
	}
}

func TestParseErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"no program":       {"-memory", "1G"},
		"env without =":    {"-env", "A", "prog"},
		"env without name": {"-env", "=b", "prog"},
		"unknown flag":     {"-nope", "prog"},
		"no size":          {"-disks", "4x", "prog"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseDisks(t *testing.T) {
	for _, text := range []string{"", "G", "0", "-1G", "0x1G", "x1G", "1Q", "1G,", "21x1G", "99999999999T", "1.5G"} {
		if got, err := parseDisks(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	if got, err := parseDisks("1048576"); err != nil || !slices.Equal(got, []int64{1 << 20}) {
		t.Errorf("bytes: %v, %v", got, err)
	}
}
