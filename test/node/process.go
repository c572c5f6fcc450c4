package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Driver is the real driver in a process of its own.
type Driver struct {
	*Client
	Socket string
	binary string
	args   []string
	log    io.Writer
	cmd    *exec.Cmd
	exited chan error
}

// StartDriver starts the binary with a socket in dir and waits until it answers, and LVM it. Its log goes to log. tools, when
// not "", is a folder of programs that it finds before the system's.
func StartDriver(binary, dir, tools string, log io.Writer, args ...string) (*Driver, error) {
	d := &Driver{Socket: filepath.Join(dir, "csi.sock"), binary: binary, args: args, log: log}
	var err error
	if d.Client, err = Dial(d.Socket, filepath.Join(dir, "volumes")); err != nil {
		return nil, err
	}
	return d, d.Start(tools)
}

// Start starts the driver, again after Kill or Stop, and waits until it answers. The client connects again by itself.
func (d *Driver) Start(tools string) error {
	d.cmd = exec.Command(d.binary, append([]string{"--endpoint", "unix://" + d.Socket, "--node-id", "node-1"}, d.args...)...)
	d.cmd.Env = os.Environ()
	if tools != "" {
		d.cmd.Env = append(d.cmd.Env, "PATH="+tools+":"+os.Getenv("PATH"))
	}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.exited = make(chan error, 1)
	go func() { d.exited <- d.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		// It answers at once; what it asks LVM at its start takes as long as another report.
		_, err := d.GetCapacity(ctx, &csi.GetCapacityRequest{})
		if err == nil {
			return nil
		}
		select {
		case err := <-d.exited:
			d.exited <- err
			return fmt.Errorf("the driver exited: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the driver does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the driver at once, as the kernel's OOM killer does.
func (d *Driver) Kill() error {
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := d.Wait(); err == nil {
		return errors.New("the driver ended by itself before it was killed")
	}
	return nil
}

// Stop asks the driver to stop, as kubelet does, and waits for it.
func (d *Driver) Stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-d.exited
}

// Wait waits for a driver that a tool kills, and returns how it ended.
func (d *Driver) Wait() error {
	select {
	case err := <-d.exited:
		return err
	case <-time.After(time.Minute):
		return errors.New("the driver still runs")
	}
}

// PowerCut cuts the power of the VM that it runs in: nothing is synced or unmounted. It does not return unless that
// fails.
func PowerCut() error {
	_, err := Run("powercut")
	return fmt.Errorf("the power is still on: %w", err)
}
