package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// How a run can end without an exit status, beside the end of its context and
// errors of the host's own.
var (
	// ErrDied means that QEMU ended by itself: the kernel panicked, or the
	// program switched off.
	ErrDied = errors.New("the guest died")
	// ErrHang means that nothing was heard for Config.Idle.
	ErrHang = errors.New("the guest hangs")
	// ErrTimeout means that Config.Timeout has passed.
	ErrTimeout = errors.New("the guest takes too long")
)

// Config is one run of one program.
type Config struct {
	Spec    Spec
	Program string        // path on the host
	Args    []string      // for the program
	Env     []string      // K=V, beside VM_BOOT and VM_SUITE
	Files   []string      // more files or folders for /work
	Out     string        // folder that the guest sees as /out; "" is a temporary one
	Memory  string        // "" is 2G
	CPUs    int           // 0 is 2
	Disks   []int64       // sizes in bytes of /dev/vdb and so on
	Timeout time.Duration // for all boots together; 0 is 20 minutes
	Idle    time.Duration // longest silence; 0 is 3 minutes
	Keep    bool          // keep the run's folder, with the console's log
	Output  io.Writer     // the program's standard output and error
	Log     io.Writer     // what this package has to say
}

func (c *Config) setDefaults() {
	if c.Memory == "" {
		c.Memory = "2G"
	}
	if c.CPUs == 0 {
		c.CPUs = 2
	}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Minute
	}
	if c.Idle == 0 {
		c.Idle = 3 * time.Minute
	}
}

// Run boots a guest, runs the program in it and returns the program's exit
// status. When the program asks for a power cut the guest boots again with the
// same data disks and the same program, and VM_BOOT counts up. Errors wrap
// ErrDied, ErrHang, ErrTimeout or ErrMissingTools, or the cause of ctx's end.
func Run(ctx context.Context, cfg Config) (status int, err error) {
	cfg.setDefaults()
	image, err := cfg.Spec.Ensure(ctx, cfg.Log)
	if err != nil {
		return 0, err
	}
	if err := findTools("qemu-system-x86_64"); err != nil {
		return 0, err
	}
	accel, err := Accel(ctx, image, cfg.Log)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "lvm-csi-vm-")
	if err != nil {
		return 0, err
	}
	if cfg.Keep {
		fmt.Fprintf(cfg.Log, "vm: the run's folder is %s\n", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	machine := MachineConfig{
		Image: image, Accel: accel, Memory: cfg.Memory, CPUs: cfg.CPUs,
		Dir: dir, Shared: filepath.Join(dir, "shared"), Out: cfg.Out,
		Word: rand.Text(), Output: cfg.Output,
	}
	if machine.Out == "" {
		machine.Out = filepath.Join(dir, "out")
	}
	if err := os.MkdirAll(machine.Out, 0o755); err != nil {
		return 0, err
	}
	if machine.Disks, err = makeDisks(dir, cfg.Disks); err != nil {
		return 0, err
	}
	if err := share(machine.Shared, machine.Word, cfg); err != nil {
		return 0, err
	}

	// Building the image is not the guest's time.
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, ErrTimeout)
	defer cancel()
	crashes := 0
	for boot := 1; ; {
		end, err := runOnce(ctx, machine, cfg, boot)
		switch {
		case errors.Is(err, ErrDied) && !end.started && accel == "tcg" && crashes < maxCrashes:
			crashes++
			fmt.Fprintf(cfg.Log, "vm: the guest crashed before the program started; once more\n%v\n", err)
		case err != nil || !end.powercut:
			return end.status, err
		default:
			boot++
			fmt.Fprintf(cfg.Log, "vm: power cut; boot %d\n", boot)
		}
	}
}

// maxCrashes is how many boots under emulation may fail in one run. QEMU before
// 8.1 now and then runs stale code when the kernel of a guest with several
// processors patches itself, which it does mostly while it boots (fixed by QEMU's
// commit deba78709ae8, "accel/tcg: Always lock pages before translation").
// Nothing was tested by then, so nothing is hidden by another try.
const maxCrashes = 2

// ending is how one boot ended.
type ending struct {
	started  bool // the program was started
	powercut bool // it asked for a power cut
	status   int  // or this is its exit status
}

// runOnce is one boot.
func runOnce(ctx context.Context, machine MachineConfig, cfg Config, boot int) (end ending, err error) {
	env := append([]string{"VM_BOOT=" + strconv.Itoa(boot), "VM_SUITE=" + cfg.Spec.suite()}, cfg.Env...)
	if err := shareList(machine.Shared, "env", env); err != nil {
		return end, err
	}
	m, err := Start(machine)
	if err != nil {
		return end, err
	}
	defer m.Kill()
	powered := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case message, ok := <-m.Messages:
			verb, argument, _ := strings.Cut(message, " ")
			switch {
			case !ok:
				return end, m.obituary()
			case verb == "start":
				end.started = true
				m.output.set(false)
				fmt.Fprintf(cfg.Log, "vm: %s (%s) runs the program after %.1f s\n",
					cfg.Spec.suite(), machine.Accel, time.Since(powered).Seconds())
			case verb == "powercut":
				end.powercut = true
				return end, nil
			case verb == "exit":
				end.status, err = strconv.Atoi(argument)
				return end, err
			}
		case <-tick.C:
			// Once the program runs only its output counts: the kernel reports
			// the tasks of a hung guest again and again.
			silence := m.output.silence()
			if !end.started {
				silence = min(silence, m.console.heard.silence())
			}
			if silence > cfg.Idle {
				return end, m.hung(fmt.Errorf("%w: nothing heard for %v", ErrHang, cfg.Idle))
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, ErrTimeout) {
				return end, err
			}
			return end, m.hung(fmt.Errorf("%w: not done after %v", ErrTimeout, cfg.Timeout))
		}
	}
}

// How much of the console an error shows, and how much of the kernel's answer to
// the question for its blocked tasks: some ten tasks.
const (
	consoleLines = 40
	answerLines  = 300
)

// hung adds to err what the guest's kernel has to say about it.
func (m *Machine) hung(err error) error {
	before := m.console.text()
	m.askBlocked()
	answer := strings.TrimPrefix(m.console.text(), before)
	return fmt.Errorf("%w\nlast lines of the console:\n%s\nblocked tasks:\n%s",
		err, lastLines(before, consoleLines), lastLines(answer, answerLines))
}

func (m *Machine) obituary() error {
	<-m.exited
	<-m.console.done
	reason := "qemu ended before the program did"
	if strings.Contains(m.console.text(), "Kernel panic") {
		reason = "kernel panic"
	}
	return fmt.Errorf("%w: %s\nqemu: %s\nlast lines of the console:\n%s",
		ErrDied, reason, m.qemuError(), lastLines(m.console.text(), consoleLines))
}
