// Command lvm-csi serves CSI volumes from the LVM volume groups of the node it runs on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/socket"
)

// version is set by the linker; a build by `go install` has its module's version instead.
var version = ""

func main() {
	o, err := parseOptions(os.Args[1:], os.LookupEnv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintf(os.Stderr, "lvm-csi: %v\n", err)
		os.Exit(2)
	}
	if o.version {
		fmt.Println("lvm-csi", buildVersion())
		return
	}
	if o.json {
		level := slog.Level(-o.verbosity)
		klog.SetSlogLogger(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	}
	if err := run(o); err != nil {
		klog.Background().Error(err, "Stopped")
		klog.Flush()
		os.Exit(1)
	}
	klog.Flush()
}

// run serves until SIGTERM or SIGINT.
func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// lvm inherits this: one that outlives the driver must not die, half way, of its next message to it.
	signal.Ignore(syscall.SIGPIPE)
	logger := klog.Background()
	o.driver.Version = buildVersion()
	tools, err := chooseTools(o.tools, "/proc", os.Getpid())
	if err != nil {
		return err
	}
	if !o.driver.NoTools {
		if o.driver.SystemVGs, err = mounter.SystemVGs(); err != nil {
			return err
		}
		tools.useOwnCgroup("/proc", os.Getpid())
	}
	listener, err := socket.Listen(o.socket)
	if err != nil {
		return err
	}
	d := driver.New(o.driver, lvm.New(tools.lvm), mounter.New(tools.prefix))
	stopBeside, err := serveBeside(o, d.Ready)
	if err != nil {
		return err
	}
	// Last of all: without its registration kubelet takes the driver as gone from this node.
	defer stopBeside()
	logger.Info("Serving", "version", buildVersion(), "driver", o.driver.Name, "node", o.driver.NodeID, "socket", o.socket,
		"tools", o.tools, "prefix", tools.prefix, "defaultVolumeGroup", o.driver.DefaultVG, "systemVolumeGroups", o.driver.SystemVGs)
	go d.Start(ctx)
	go d.KeepBackups(ctx)
	if err := d.Serve(ctx, listener); err != nil {
		return err
	}
	logger.Info("Stopping: waiting for operations to end")
	if !d.Close() {
		return fmt.Errorf("operations did not end in time")
	}
	return nil
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
