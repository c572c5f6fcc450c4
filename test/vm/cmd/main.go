// Command cmd runs a program in a virtual machine with a stock Debian kernel:
//
//	cmd [flags] -- program [args...]
//
// It exits with the program's status; 124 means that the guest hung or took too
// long, 125 that it died or that this command could not do its work, 130 that it
// was interrupted. (go run turns every status but 0 into 1: build it where the
// status matters.)
//
// In the guest the program is in the working directory, /job, together with
// whatever -file named. /out is the folder named by -out. VM_BOOT counts the
// boots from 1 and VM_SUITE names the Debian release. The command powercut cuts
// the guest's power; it boots again with the same data disks and program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lvm-csi/lvm-csi/test/vm"
)

const (
	exitUsage       = 2
	exitHang        = 124
	exitFailed      = 125
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %v\n", err)
		return exitUsage
	}
	cfg.Output, cfg.Log = os.Stdout, os.Stderr

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	status, err := vm.Run(ctx, cfg)
	if err == nil {
		return status
	}
	fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, vm.ErrHang), errors.Is(err, vm.ErrTimeout):
		return exitHang
	default:
		return exitFailed
	}
}
