package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// probePatience is how long KVM may take to boot the kernel and run the first
// program of the initrd, which takes it about a second.
const probePatience = 6 * time.Second

// Accel returns what QEMU should run guests with: "kvm" where it works, "tcg"
// (software emulation) elsewhere. VM_ACCEL forces either. That /dev/kvm can be
// opened proves little, so the image's kernel is booted once for each boot of
// the host.
func Accel(ctx context.Context, image Image, log io.Writer) (string, error) {
	switch forced := os.Getenv("VM_ACCEL"); forced {
	case "kvm", "tcg":
		return forced, nil
	case "":
	default:
		return "", fmt.Errorf("VM_ACCEL=%q: want kvm or tcg", forced)
	}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintf(log, "vm: no KVM, emulating: %v\n", err)
		return "tcg", nil
	}
	_ = kvm.Close()

	memory, err := probeMemory()
	if err != nil {
		return "", err
	}
	if answer, err := os.ReadFile(memory); err == nil {
		return string(answer), nil
	}
	accel := "kvm"
	if err := probe(ctx, image); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		accel = "tcg"
		fmt.Fprintf(log, "vm: KVM does not work here, emulating: %v\n", err)
	}
	if err := os.WriteFile(memory, []byte(accel), 0o644); err != nil {
		return "", fmt.Errorf("remembering whether KVM works: %w", err)
	}
	return accel, nil
}

// probeMemory names the file that holds the answer for this boot of this host.
func probeMemory() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	version, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking qemu for its version: %w", err)
	}
	sum := sha256.New()
	sum.Write(version)
	for _, file := range []string{"/proc/sys/kernel/osrelease", "/proc/sys/kernel/random/boot_id"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return filepath.Join(cache, "accel-"+hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// probe returns nil if KVM gets a guest as far as its first program.
func probe(ctx context.Context, image Image) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience, errors.New("the guest did not come up"))
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append(cpuArgs("kvm"),
		"-m", "512M", "-smp", "2", "-kernel", image.kernel(), "-initrd", image.initrd(),
		"-append", "console=ttyS0 quiet panic=-1 vm.probe", "-serial", "stdio")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	switch {
	case strings.Contains(said.String(), "vm-probe-ok"):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(lastLines(said.String(), 1)))
	}
}
