package vm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// MachineConfig says what is plugged together for one boot.
type MachineConfig struct {
	Image  Image
	Accel  string // "kvm" or "tcg"
	Memory string // as QEMU takes it: "2G"
	CPUs   int
	Dir    string   // for console.log and qemu.log
	Shared string   // folder with guest/init.sh and what it reads
	Out    string   // folder that the guest sees as /out
	Disks  []string // raw files; /dev/vdb and so on, in this order
	Word   string   // marks the guest's messages in its output
	Output io.Writer
	Extra  []string // more arguments for QEMU, such as network cards
}

// Machine is a running virtual machine.
type Machine struct {
	// Messages are what guest/init.sh says: "start" when the program starts,
	// "exit N" when it ended, "powercut" when the guest asks for one. Closed
	// when QEMU is gone. All output that came before a message has been
	// written to Output when the message is received.
	Messages <-chan string

	console *console
	output  *activity
	qmp     net.Conn
	cmd     *exec.Cmd // its ProcessState is there when exited is closed
	exited  chan struct{}
	dir     string
}

// Start boots a machine. It ends when the guest powers off or panics, on Kill,
// and with this process, however that ends.
func Start(cfg MachineConfig) (*Machine, error) {
	if err := findTools("qemu-system-x86_64"); err != nil {
		return nil, err
	}
	// QEMU gets one end of each as descriptors 3, 4 and 5: sockets with names
	// would have to be waited for, and their paths can be too long.
	var ours [3]net.Conn
	var theirs [3]*os.File
	for i := range ours {
		var err error
		if ours[i], theirs[i], err = socketPair(); err != nil {
			return nil, err
		}
		defer theirs[i].Close()
	}
	qemuLog, err := os.Create(filepath.Join(cfg.Dir, "qemu.log"))
	if err != nil {
		return nil, err
	}
	defer qemuLog.Close()
	console, err := newConsole(ours[0], filepath.Join(cfg.Dir, "console.log"))
	if err != nil {
		return nil, err
	}

	cmd := exec.Command("qemu-system-x86_64", cfg.args()...)
	cmd.ExtraFiles = theirs[:]
	cmd.Stdout, cmd.Stderr = qemuLog, qemuLog
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // Ctrl-C is ours to handle
		Pdeathsig: syscall.SIGKILL,
	}
	exited := make(chan struct{})
	if err := startAndReap(cmd, exited); err != nil {
		return nil, fmt.Errorf("starting qemu: %w", err)
	}

	messages := make(chan string, 8)
	m := &Machine{
		Messages: messages, console: console, output: newActivity(), qmp: ours[2],
		cmd: cmd, exited: exited, dir: cfg.Dir,
	}
	go console.read()
	go func() {
		defer close(messages)
		splitter := &splitter{word: cfg.Word, output: m.output.writer(cfg.Output), message: func(text string) {
			select {
			case messages <- text:
			case <-exited:
			}
		}}
		_, _ = io.Copy(splitter, ours[1]) // until QEMU is gone
		splitter.flush()
		_ = ours[1].Close()
	}()
	return m, nil
}

func (cfg MachineConfig) args() []string {
	args := append(cpuArgs(cfg.Accel),
		"-m", cfg.Memory, "-smp", strconv.Itoa(cfg.CPUs),
		"-kernel", cfg.Image.kernel(), "-initrd", cfg.Image.initrd(),
		// panic=-1 and -no-reboot make a panic the end of QEMU. sysrq is for
		// the questions that are asked of a guest that hangs.
		"-append", "console=ttyS0 quiet panic=-1 sysrq_always_enabled",
		"-chardev", "socket,id=console,fd=3", "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=output,fd=4", "-device", "virtserialport,chardev=output,name=output",
		"-chardev", "socket,id=qmp,fd=5", "-mon", "chardev=qmp,mode=control",
		"-virtfs", "local,mount_tag=host,security_model=none,id=host,path="+escape(cfg.Shared),
		"-virtfs", "local,mount_tag=out,security_model=none,id=out,path="+escape(cfg.Out),
		"-drive", "if=none,id=root,format=raw,snapshot=on,file="+escape(cfg.Image.root()),
		"-device", "virtio-blk-pci,drive=root", // the first one: /dev/vda
	)
	for i, disk := range cfg.Disks {
		// cache=unsafe only skips fsync on the host. What the guest wrote is in
		// the host's page cache and outlives QEMU, as it must after a power cut.
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=disk%d,format=raw,cache=unsafe,discard=unmap,file=%s", i+1, escape(disk)),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d,serial=disk%d", i+1, i+1))
	}
	return append(args, cfg.Extra...)
}

// cpuArgs are shared with the probe of KVM, which must try the same machine.
func cpuArgs(accel string) []string {
	cpu := "max"
	if accel == "tcg" {
		// Emulated, what these are to speed up (copying by bytes) or to protect (each access to a program's memory) is slow.
		cpu, accel = "max,-erms,-fsrm,-smap", "tcg,thread=multi"
	}
	return []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-cpu", cpu, "-accel", accel}
}

// escape doubles commas, which separate options of QEMU.
func escape(path string) string {
	var escaped []rune
	for _, r := range path {
		if r == ',' {
			escaped = append(escaped, r)
		}
		escaped = append(escaped, r)
	}
	return string(escaped)
}

// Kill is a power cut: QEMU gets no chance to write anything. It returns when
// QEMU is gone.
func (m *Machine) Kill() {
	_ = m.cmd.Process.Kill()
	<-m.exited
	_ = m.qmp.Close()
	m.console.close()
}

// Console is all that the kernel's console showed so far.
func (m *Machine) Console() string { return m.console.text() }

// qemuError is what QEMU itself had to say.
func (m *Machine) qemuError() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "qemu.log"))
	return lastLines(string(text), 10)
}

// startAndReap starts cmd and closes exited when it has ended. The parent death
// signal comes when the thread that started the child ends, not the process, so
// that thread is kept for as long.
func startAndReap(cmd *exec.Cmd, exited chan<- struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(exited)
		}
	}()
	return <-started
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "socket")
	defer ours.Close() // FileConn duplicates it
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}
