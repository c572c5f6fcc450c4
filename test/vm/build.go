package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// makeRootScript turns the tar file on its standard input into the file system
// on file descriptor 3. It may run in mmdebstrap's user namespace, where the
// image's folder is out of reach; an open descriptor is not. There it may not
// make device nodes either, which the guest's devtmpfs replaces anyway. The
// journal only costs: no root disk outlives its boot.
const makeRootScript = `set -eu
export PATH="$PATH:/usr/sbin:/sbin"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 143' INT TERM
tar -C "$tree" --exclude='./dev/*' -x
mkfs.ext4 -q -F -O ^has_journal -d "$tree" /proc/self/fd/3`

// build makes vmlinux, initrd and root.img in dir.
func (s Spec) build(ctx context.Context, dir string, log io.Writer) error {
	tools := []string{"mmdebstrap", "mkfs.ext4"}
	if os.Geteuid() != 0 {
		tools = append(tools, "newuidmap") // mmdebstrap's way without root
	}
	if err := findTools(tools...); err != nil {
		return err
	}
	scripts := map[string]string{"setup.sh": setupScript, "initrd.sh": initrdScript, "stage1.sh": stage1Script}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	root, err := os.Create(filepath.Join(dir, "root.img"))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Truncate(rootBytes); err != nil {
		return err
	}
	if err := root.Chmod(0o666); err != nil { // for the user namespace's root
		return err
	}

	fmt.Fprintf(log, "vm: building the %s image, once; 1 to 3 minutes\n", s.suite())
	begin := time.Now()
	if err := s.pipeline(ctx, dir, root, log); err != nil {
		return err
	}
	if err := root.Chmod(0o644); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: built in %.0f s: %s\n", time.Since(begin).Seconds(), strings.TrimSuffix(dir, ".partial"))
	return nil
}

// pipeline runs mmdebstrap | makeRootScript.
func (s Spec) pipeline(ctx context.Context, dir string, root *os.File, log io.Writer) error {
	// The parent death signal of the two comes when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	debstrapArgv := append([]string{"mmdebstrap"}, s.mmdebstrapArgs(dir)...)
	mkrootArgv := []string{"sh", "-c", makeRootScript}
	if os.Geteuid() == 0 {
		// As root mmdebstrap mounts /proc and more for all to see.
		debstrapArgv = append([]string{"unshare", "--mount", "--propagation", "private"}, debstrapArgv...)
	} else {
		mkrootArgv = append([]string{"mmdebstrap", "--unshare-helper"}, mkrootArgv...)
	}
	progress := &progress{log: log, begin: time.Now()}
	debstrap := buildCommand(ctx, debstrapArgv, progress)
	// No initrd is made by the kernel's package: setup.sh makes its own.
	debstrap.Env = append(os.Environ(), "INITRD=No")
	mkroot := buildCommand(ctx, mkrootArgv, progress)
	mkroot.ExtraFiles = []*os.File{root}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	debstrap.Stdout, mkroot.Stdin = write, read

	err = errors.Join(debstrap.Start(), write.Close())
	if err != nil {
		return errors.Join(err, read.Close())
	}
	// Without its reader mmdebstrap ends by itself and cleans up.
	rootErr := errors.Join(mkroot.Start(), read.Close())
	if rootErr == nil {
		rootErr = mkroot.Wait()
	}
	debstrapErr := debstrap.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// One that fails takes the other with it: which was first is in the text.
	if err := errors.Join(debstrapErr, rootErr); err != nil {
		return fmt.Errorf("%w\n%s", err, progress.tail())
	}
	return nil
}

func (s Spec) mmdebstrapArgs(dir string) []string {
	args := []string{
		"--variant=minbase", "--format=tar",
		"--include=" + strings.Join(s.packages(), ","),
		// An old suite that moved to the archive is no longer signed anew.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
	}
	for _, unused := range []string{"doc", "man", "locale", "info"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+unused+"/*")
	}
	for _, script := range []string{"setup.sh", "initrd.sh", "stage1.sh"} {
		args = append(args, fmt.Sprintf("--customize-hook=upload '%s' /tmp/%s", filepath.Join(dir, script), script))
	}
	args = append(args, `--customize-hook=chroot "$1" sh /tmp/setup.sh`)
	for _, file := range []string{"vmlinux", "initrd"} {
		args = append(args, fmt.Sprintf("--customize-hook=download /vm/%s '%s'", file, filepath.Join(dir, file)))
	}
	return append(args, `--customize-hook=rm -r "$1/vm"`, s.suite(), "-")
}

// buildCommand is a command that gets the time to clean up when ctx or this
// process ends: both steps have temporary folders.
func buildCommand(ctx context.Context, argv []string, stderr io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = stderr
	// Not in our process group: Ctrl-C reaches it through ctx, and only once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// progress passes on mmdebstrap's "I: " lines, one in three seconds at most,
// and remembers all it was told for the case of an error.
type progress struct {
	mu    sync.Mutex // both programs write
	log   io.Writer
	begin time.Time
	last  time.Time
	text  bytes.Buffer
	line  bytes.Buffer
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	p.line.Write(b)
	for {
		line, err := p.line.ReadString('\n')
		if err != nil { // a line that goes on in the next Write
			p.line.WriteString(line)
			return len(b), nil
		}
		step, isStep := strings.CutPrefix(strings.TrimSpace(line), "I: ")
		if !isStep || strings.HasPrefix(step, "running ") || time.Since(p.last) < 3*time.Second {
			continue
		}
		p.last = time.Now()
		fmt.Fprintf(p.log, "vm: %3.0f s: %s\n", time.Since(p.begin).Seconds(), step)
	}
}

func (p *progress) tail() string { return lastLines(p.text.String(), 30) }

// lastLines returns the last n lines of text without control characters.
func lastLines(text string, n int) string {
	var lines []string
	scanner := bufio.NewScanner(strings.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' {
				return -1
			}
			return r
		}, scanner.Text())
		lines = append(lines, line)
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
