package vm

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var log bytes.Buffer
	p := &progress{log: &log, begin: time.Now()}
	_, _ = io.WriteString(p, "I: downloading\nW: odd\nI: too soon\nhalf a ")
	_, _ = io.WriteString(p, "line\n")
	if got, want := log.String(), "vm:   0 s: downloading\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if got, want := p.tail(), "I: downloading\nW: odd\nI: too soon\nhalf a line"; got != want {
		t.Errorf("remembered %q, want %q", got, want)
	}
}

func TestLastLines(t *testing.T) {
	if got, want := lastLines("one\r\ntwo\x1b[0m\r\n\tthree", 2), "two[0m\n\tthree"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := lastLines("", 2); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

func TestFindTools(t *testing.T) {
	packageOf["no-such-program"] = "its-package"
	defer delete(packageOf, "no-such-program")
	err := findTools("no-such-program")
	if !errors.Is(err, ErrMissingTools) || !strings.Contains(err.Error(), "apt-get install its-package") {
		t.Errorf("got %v", err)
	}
}
