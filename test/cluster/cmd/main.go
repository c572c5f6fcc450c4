// Command cluster keeps a Kubernetes cluster with the driver on this machine:
//
//	cluster up     bring it up, or the driver on it up to date, and leave it running
//	cluster down   end it; nothing is left but what is cached
//	cluster serve  what "up" leaves running
//	cluster power-cut NODE, cluster power-on NODE
//	cluster on NODE program...   run a program on a node, as root
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

const gib = int64(1) << 30

// nodes of the cluster: two of unequal size, of which one has a second VG and a disk to spare.
var nodes = []cluster.NodeSpec{
	{Disks: []cluster.Disk{{Size: 6 * gib, VG: "vg0"}, {Size: 6 * gib, VG: "vg0"}}},
	{Disks: []cluster.Disk{{Size: 8 * gib, VG: "vg0"}, {Size: 4 * gib, VG: "vg1"}, {Size: 4 * gib}}},
}

const imageName = "ghcr.io/lvm-csi/lvm-csi"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	dir, err := cluster.Dir()
	if err != nil {
		return err
	}
	bin, err := os.Executable()
	if err != nil {
		return err
	}
	bin = filepath.Dir(bin)
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "up":
		return up(ctx, dir, bin)
	case "serve":
		images, err := cluster.Built()
		if err != nil {
			return err
		}
		return cluster.Serve(ctx, cluster.Config{Dir: dir, Nodes: nodes, Programs: map[string]string{"agent": filepath.Join(bin, "agent")}, Images: images}, os.Stdout)
	}
	c, err := cluster.Connect(dir)
	switch {
	case verb == "down" && errors.Is(err, cluster.ErrDown):
		return nil
	case err != nil:
		return err
	case verb == "down":
		return c.Down(ctx)
	case verb == "power-cut" && len(args) == 2:
		return c.PowerCut(ctx, args[1])
	case verb == "power-on" && len(args) == 2:
		return c.PowerOn(ctx, args[1])
	case verb == "on" && len(args) > 2:
		return on(ctx, c, args[1], args[2:])
	}
	return errors.New("say up, down, power-cut NODE, power-on NODE or on NODE and a program")
}

func on(ctx context.Context, c *cluster.Cluster, name string, words []string) error {
	all, err := c.Nodes()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.Name == name {
			out, err := n.Run(ctx, nil, words...)
			fmt.Print(out)
			return err
		}
	}
	return fmt.Errorf("no node %q", name)
}

// up is begun again where it was interrupted.
func up(ctx context.Context, dir, bin string) error {
	if os.Geteuid() != 0 {
		return errors.New("images are built and unpacked as root: run it with sudo -E")
	}
	repo, err := os.Getwd()
	if err != nil {
		return err
	}
	begin := time.Now()
	images, err := cluster.Images(ctx, repo, imageName, os.Getenv("VERSION"), filepath.Join(bin, "pause"), os.Stdout)
	if err != nil {
		return err
	}
	say(begin, "images are built")
	c, err := cluster.Connect(dir)
	if errors.Is(err, cluster.ErrDown) {
		c, err = start(ctx, dir)
	}
	if err != nil {
		return err
	}
	all, err := c.NodesOn()
	if err != nil {
		return err
	}
	if err := c.WaitReady(ctx, all...); err != nil {
		return err
	}
	say(begin, "the nodes are ready")
	loaded := make(chan error)
	for _, n := range all {
		go func() { loaded <- c.Load(ctx, n, images) }()
	}
	for range all {
		err = errors.Join(err, <-loaded)
	}
	if err != nil {
		return err
	}
	say(begin, "the nodes have the images")
	if err := c.Install(ctx, cluster.Release{Name: "lvm-csi", Repo: repo, Image: images[0].Name, Values: cluster.Values()}); err != nil {
		return err
	}
	say(begin, "the driver is installed")
	fmt.Printf("\nThe cluster is up. To use it, and to end it:\n\n    export KUBECONFIG=%s PATH=%s:$PATH\n    make cluster-down\n", c.Kubeconfig(), filepath.Dir(c.Kubectl()))
	return nil
}

func say(begin time.Time, what string) {
	fmt.Printf("cluster: %3.0f s: %s\n", time.Since(begin).Seconds(), what)
}

// start leaves a process running that keeps the cluster, and returns when its API server is ready.
func start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := dir + ".log"
	log, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	keeper := exec.Command(self, "serve")
	keeper.Stdout, keeper.Stderr = log, log
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	said, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	for {
		_, _ = io.Copy(os.Stdout, said)
		if c, err := cluster.Connect(dir); !errors.Is(err, cluster.ErrDown) {
			return c, err
		}
		select {
		case err := <-ended:
			_, _ = io.Copy(os.Stdout, said)
			return nil, fmt.Errorf("the cluster did not come up: %w; see %s", err, path)
		case <-ctx.Done():
			_ = keeper.Process.Signal(syscall.SIGTERM)
			return nil, errors.Join(ctx.Err(), <-ended)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
