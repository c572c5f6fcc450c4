package lvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// Process is the Runner that starts one process for each command.
type Process struct {
	// Prefix goes before each command line, such as nsenter and its options.
	// File descriptors 0 to 3 must pass through it.
	Prefix []string
	// Config goes into lvm's --config beside what the runner itself needs, such as "activation { monitoring=0 }".
	Config string
	// Env is added to the environment of each process, as NAME=value.
	Env []string
	// Cgroup, an open folder of a cgroup2 file system, is where the processes are started; nil is the caller's own cgroup.
	// A container's end kills what is in its cgroup, and a killed lvm can leave devices suspended.
	Cgroup *os.File
}

// commandLog makes lvm log its messages as data (lvmreport(7)), with the
// columns of Message. Times are seconds, so that no locale or zone has to be parsed. Everything is selected,
// because LVM 2.03.16 leaves a comma behind the last entry when it leaves later ones out (by default, success).
const commandLog = `log { report_command_log=1 command_log_sort="log_seq_num" command_log_selection="all"` +
	` command_log_cols="log_type,log_context,log_object_type,log_object_name,log_object_group,log_message,log_errno,log_ret_code" }` +
	` report { time_format="%s" }`

// maxReport bounds what one command may answer: 1,000 LVs take about 1 MiB.
const maxReport = 256 << 20

// Run implements Runner. The report comes on a descriptor of its own
// (LVM_REPORT_FD, lvm(8)), because lvm prints plain messages to stdout as well.
func (p Process) Run(ctx context.Context, args ...string) (Output, error) {
	words := p.Words(args...)
	answer, theirs, err := os.Pipe()
	if err != nil {
		return Output{}, fmt.Errorf("making a pipe for %s: %w", args[0], err)
	}
	defer answer.Close()
	defer theirs.Close()
	if err := ctx.Err(); err != nil {
		return Output{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd, err := p.start(words, theirs, &stdout, &stderr)
	if err != nil && p.Cgroup != nil { // nothing was started, and a cgroup that is gone must not stop all work
		p.Cgroup = nil
		if cmd, err = p.start(words, theirs, &stdout, &stderr); err == nil {
			klog.FromContext(ctx).Info("lvm runs in the driver's cgroup: its own has gone", "command", args[0])
		}
	}
	if err != nil {
		return Output{}, fmt.Errorf("starting %s: %w", words[0], err)
	}
	theirs.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // only reports have a ctx that ends
	defer stop()
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = answer.SetReadDeadline(time.Now().Add(lingering))
		exited <- err
	}()
	report, readErr := io.ReadAll(io.LimitReader(answer, maxReport)) // while lvm writes: a pipe holds 64 KiB
	if errors.Is(readErr, os.ErrDeadlineExceeded) {
		readErr = nil
	}
	out, err := outcome(args, <-exited, report, readErr)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	if out.Code != 0 && len(out.Log) == 0 {
		out.Log = plainLog(stderr.String())
	}
	return out, err
}

// start starts a command line that answers on answer.
func (p Process) start(words []string, answer *os.File, stdout, stderr io.Writer) (*exec.Cmd, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_REPORT_FD=3", "LVM_SUPPRESS_FD_WARNINGS=1", "HOME=/nonexistent")
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.ExtraFiles = []*os.File{answer}
	// A group of its own: a Ctrl-C meant for the driver must not kill an lvm
	// that holds devices suspended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.Cgroup != nil {
		// CLONE_INTO_CGROUP (clone(2), Linux 5.7): it is born there, so there is no moment in which it could be killed with
		// the container.
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(p.Cgroup.Fd())
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = lingering
	return cmd, cmd.Start()
}

// lingering is how long a pipe is read after lvm has exited: a daemon that lvm started may hold it open.
const lingering = 2 * time.Second

// Words is the command line of the process that Run starts for args.
func (p Process) Words(args ...string) []string {
	if args[0] == "dmsetup" {
		return slices.Concat(p.Prefix, args)
	}
	words := []string{"lvm", args[0], "--config"}
	if isSelection(args) {
		// LVM 2.03.16 dies of SIGSEGV when a command other than a report has both a
		// selection and the command log.
		words = append(words, p.config("log { report_command_log=0 }"))
	} else {
		words = append(words, p.config(commandLog), "--reportformat", "json")
	}
	return slices.Concat(p.Prefix, words, args[1:])
}

// config is what --config takes: it can be given once.
func (p Process) config(own string) string {
	if p.Config == "" {
		return own
	}
	return own + " " + p.Config
}

// isSelection reports whether args change what a selection finds.
func isSelection(args []string) bool { return args[0] != "fullreport" && slices.Contains(args, "-S") }

// outcome reads what a finished process says: its exit status and its answer.
func outcome(args []string, waitErr error, report []byte, readErr error) (Output, error) {
	var out Output
	var exit *exec.ExitError
	switch {
	case errors.As(waitErr, &exit) && exit.Exited():
		out.Code = exit.ExitCode()
	case waitErr != nil && !errors.Is(waitErr, exec.ErrWaitDelay): // killed by a signal, or it could not be waited for
		return out, fmt.Errorf("%s: %w: %w", args[0], ErrUnknown, waitErr)
	}
	if readErr != nil {
		return out, fmt.Errorf("reading the answer of %s: %w: %w", args[0], ErrUnknown, readErr)
	}
	if len(bytes.TrimSpace(report)) == 0 {
		return out, nil
	}
	var answer struct {
		Report []json.RawMessage
		Log    []Message
	}
	if err := json.Unmarshal(report, &answer); err != nil {
		return out, fmt.Errorf("parsing the answer of %s: %w: %w", args[0], ErrUnknown, err)
	}
	out.Report, out.Log = answer.Report, answer.Log
	return out, nil
}

// plainLog makes messages of what a command without a log wrote to stderr: usage errors,
// selections and dmsetup. They are for people; they name no object.
func plainLog(stderr string) []Message {
	var log []Message
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			log = append(log, Message{Type: "error", Text: line})
		}
	}
	return log
}
