package lvm

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// answer is what one command answered when testdata/capture.sh ran it.
type answer struct {
	code int
	text string // JSON, or what came on stderr
}

// eachVersion runs a test for each version of LVM that was captured, with the folder of its answers.
func eachVersion(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dirs, err := filepath.Glob("testdata/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("nothing captured: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

// answers reads the file of commands: each after a line "-- NAME CODE --".
func answers(t *testing.T, dir string) map[string]answer {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, "commands"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]answer{}
	for _, part := range strings.Split("\n"+string(file), "\n-- ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		name, code, _ := strings.Cut(strings.TrimSuffix(head, " --"), " ")
		n, err := strconv.Atoi(code)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = answer{n, text}
	}
	return all
}

// output is the answer as Process returns it.
func (a answer) output(t *testing.T) Output {
	t.Helper()
	report := a.text
	if !strings.HasPrefix(strings.TrimSpace(report), "{") {
		report = ""
	}
	out, err := outcome([]string{"lvm"}, nil, []byte(report), nil)
	if err != nil {
		t.Fatalf("%v:\n%s", err, a.text)
	}
	if out.Code = a.code; out.Code != 0 && len(out.Log) == 0 {
		out.Log = plainLog(a.text)
	}
	return out
}
