package mounter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// toolError is a tool that ran and failed.
type toolError struct {
	tool   string // "mkfs.xfs"
	code   int    // its exit status, or -1 when a signal ended it
	output string // what it printed: stderr, then stdout
}

// Error implements error. Usage texts are long: it shows both ends of the output.
func (e *toolError) Error() string {
	lines := e.lines()
	if len(lines) > 8 {
		lines = append(append(lines[:4:4], "…"), lines[len(lines)-4:]...)
	}
	text := strings.Join(lines, "; ")
	if text == "" {
		text = "no message"
	}
	if e.code < 0 {
		return fmt.Sprintf("%s was ended by a signal: %s", e.tool, text)
	}
	return fmt.Sprintf("%s exited with %d: %s", e.tool, e.code, text)
}

func (e *toolError) lines() []string {
	var all []string
	for line := range strings.Lines(e.output) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// exitCode is the exit status in an error of run, or -1.
func exitCode(err error) int {
	var e *toolError
	if errors.As(err, &e) {
		return e.code
	}
	return -1
}

// gracePeriod is how long a tool that was told to stop may take until nobody waits for it any more.
const gracePeriod = 2 * time.Second

// run runs a tool to its end and returns what it wrote. When ctx ends it tells the tool to stop and
// waits a little, so that it usually lets go of the device before its caller does; one in D state it leaves behind.
// The error is a *toolError when the tool ran and failed.
func run(ctx context.Context, words ...string) (stdout, stderr string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Dir = "/"
	// A group of its own: a Ctrl-C meant for the driver must not kill a mkfs; and a prefix such as nsenter, which may
	// fork, is stopped with its child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var outs, errs output
	cmd.Stdout, cmd.Stderr = &outs, &errs
	if err := cmd.Start(); err != nil {
		return "", "", fmt.Errorf("starting %s: %w", words[0], err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
		return outs.String(), errs.String(), failure(words[0], err, errs.String()+"\n"+outs.String())
	case <-ctx.Done():
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	select {
	case err = <-done:
		if err == nil { // it was done already
			return outs.String(), errs.String(), nil
		}
	case <-time.After(gracePeriod):
	}
	return "", "", fmt.Errorf("%s: %w", words[0], ctx.Err())
}

func failure(tool string, err error, output string) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return &toolError{tool: tool, code: exit.ExitCode(), output: output}
	default:
		return fmt.Errorf("running %s: %w", tool, err)
	}
}

// tool runs a tool with the prefix before its words.
func (l *Linux) tool(ctx context.Context, words ...string) (stdout, stderr string, err error) {
	stdout, stderr, err = run(ctx, append(l.prefix[:len(l.prefix):len(l.prefix)], words...)...)
	var e *toolError
	if errors.As(err, &e) {
		e.tool = words[0]
	}
	return stdout, stderr, err
}

// output keeps the first 64 KiB that a tool writes.
type output struct{ bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	if room := 64<<10 - o.Len(); room > 0 {
		o.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
