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

	errPanic = errors.New("kernel panic")
	errReset = errors.New("it reset itself or switched off before the program's end")
	errQEMU  = errors.New("qemu failed")
)

// Config is one run of one program.
type Config struct {
	Spec    Spec
	Program string        // path on the host
	Args    []string      // for the program
	Env     []string      // K=V, beside VM_BOOT and VM_SUITE
	Files   []string      // more files or folders for /job
	Out     string        // folder that the guest sees as /out; "" is a temporary one
	Memory  string        // "" is 2G
	CPUs    int           // 0 is 2
	Disks   []int64       // sizes in bytes of /dev/vdb and so on
	Images  []string      // raw files that outlive the run, as the disks after those
	QEMU    []string      // more arguments for QEMU, such as network cards
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
	machine, err := cfg.plug(dir, image, accel)
	if err != nil {
		return 0, err
	}

	// Building the image is not the guest's time.
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, ErrTimeout)
	defer cancel()
	crashes := 0
	for boot := 1; ; {
		end, err := runOnce(ctx, machine, cfg, boot)
		switch {
		case end.crashed(err) && accel == "tcg" && crashes < maxCrashes:
			crashes++
			fmt.Fprintf(cfg.Log, "vm: the program did not start; booting once more\n%v\n", err)
		case err != nil || !end.powercut:
			return end.status, err
		default:
			boot++
			fmt.Fprintf(cfg.Log, "vm: power cut; boot %d\n", boot)
		}
	}
}

// plug prepares the run's folder and says what the machine is made of.
func (c Config) plug(dir string, image Image, accel string) (MachineConfig, error) {
	machine := MachineConfig{
		Image: image, Accel: accel, Memory: c.Memory, CPUs: c.CPUs,
		Dir: dir, Shared: filepath.Join(dir, "shared"), Out: c.Out,
		Word: rand.Text(), Output: c.Output,
	}
	if machine.Out == "" {
		machine.Out = filepath.Join(dir, "out")
	}
	if err := os.MkdirAll(machine.Out, 0o755); err != nil {
		return machine, err
	}
	disks, err := makeDisks(dir, c.Disks)
	if err != nil {
		return machine, err
	}
	machine.Disks, machine.Extra = append(disks, c.Images...), c.QEMU
	return machine, share(machine.Shared, machine.Word, c)
}

// maxCrashes is how many boots under emulation may fail in one run. With QEMU
// 7.2 on a busy host one boot in about thirty did: an exception in the middle of
// an instruction that the kernel had just patched, a standstill, a reset before
// the first line. That looks like the fault of ClangBuiltLinux/boot-utils issue
// 111, which is said to be fixed in newer QEMU; kernels patch themselves mostly
// while they boot. Nothing was tested by then, so another try hides nothing.
const maxCrashes = 2

// bootIdle is the longest silence before the program starts. The slowest step
// takes some seconds, half a minute on a host with ten times more to do than it
// can.
const bootIdle = 2 * time.Minute

// ending is how one boot ended.
type ending struct {
	started  bool // the program was started
	powercut bool // it asked for a power cut
	status   int  // or this is its exit status
}

// crashed tells whether the boot failed for a reason within the guest before the
// program started.
func (e ending) crashed(err error) bool {
	return !e.started && (errors.Is(err, errPanic) || errors.Is(err, errReset) || errors.Is(err, ErrHang))
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
			silence, limit := m.output.silence(), cfg.Idle
			if !end.started {
				silence, limit = min(silence, m.console.heard.silence()), min(bootIdle, cfg.Idle)
			}
			if silence > limit {
				return end, m.hung(fmt.Errorf("%w: nothing heard for %v", ErrHang, limit))
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
// the question what hangs: some ten tasks.
const (
	consoleLines = 40
	answerLines  = 300
)

// hung adds to err what the guest's kernel has to say about it.
func (m *Machine) hung(err error) error {
	before := m.console.text()
	m.askKernel()
	answer := strings.TrimPrefix(m.console.text(), before)
	return fmt.Errorf("%w\nlast lines of the console:\n%s\nprocessors and blocked tasks:\n%s",
		err, lastLines(before, consoleLines), lastLines(answer, answerLines))
}

// obituary says how QEMU ended by itself. Because of -no-reboot its status is 0
// after whatever the guest did.
func (m *Machine) obituary() error {
	<-m.exited
	<-m.console.done
	reason := errQEMU
	switch {
	case strings.Contains(m.console.text(), "Kernel panic"):
		reason = errPanic
	case m.cmd.ProcessState.Success():
		reason = errReset
	}
	return fmt.Errorf("%w: %w\nqemu: %v %s\nlast lines of the console:\n%s",
		ErrDied, reason, m.cmd.ProcessState, m.qemuError(), lastLines(m.console.text(), consoleLines))
}
