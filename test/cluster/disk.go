package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// dataSize is the disk that a node runs from: programs, images and containers. The file is sparse.
const dataSize = 16 << 30

// makeData makes the disk that the data disks of all nodes are copies of: their programs, and containerd's folder with the images in it already,
// which takes minutes on an emulated node and seconds here.
func makeData(ctx context.Context, path string, programs map[string]string, images []Image) error {
	tree := path + ".tree"
	bin := filepath.Join(tree, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "agent"} {
		if err := place(programs[program], filepath.Join(bin, program)); err != nil {
			return err
		}
	}
	if err := unpack(ctx, bin, filepath.Join(tree, "containerd"), images); err != nil {
		return err
	}
	if err := makeFile(path, dataSize); err != nil {
		return err
	}
	mkfs := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-d", tree, path)
	mkfs.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := mkfs.CombinedOutput(); err != nil {
		return fmt.Errorf("making %s: %w %s", path, err, out)
	}
	return nil
}

// unpack makes the folder root of a containerd that has imported images, with the programs in bin.
func unpack(ctx context.Context, bin, root string, images []Image) error {
	const config = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
[grpc]
address = %q
`
	work := root + ".work"
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	file, socket := filepath.Join(work, "config.toml"), filepath.Join(work, "s")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, root, filepath.Join(work, "state"), socket), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(work, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	daemon := exec.Command(filepath.Join(bin, "containerd"), "--config", file)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	ctr := func(words ...string) error {
		out, err := exec.CommandContext(ctx, filepath.Join(bin, "ctr"), append([]string{"-a", socket, "-n", "k8s.io"}, words...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("ctr %s: %w\n%s", strings.Join(words, " "), err, lastLines(string(out), 10))
		}
		return err
	}
	err = ctr("version")
	for begin := time.Now(); err != nil && time.Since(begin) < 30*time.Second && ctx.Err() == nil; err = ctr("version") {
		time.Sleep(100 * time.Millisecond)
	}
	for _, image := range images {
		if err == nil {
			err = ctr("images", "import", "--local", "--digests=false", image.File)
		}
	}
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		err = fmt.Errorf("unpacking the images: %w\n%s", err, lastLines(string(text), 10))
	}
	return errors.Join(err, daemon.Process.Signal(syscall.SIGTERM), <-ended)
}

// place makes to the same file as from, or a copy where they are on different filesystems.
func place(from, to string) error {
	err := os.Link(from, to)
	if err == nil || !errors.Is(err, syscall.EXDEV) {
		return err
	}
	return copyFile(from, to)
}

// copyFile copies a file that root of a node may then write to. Holes stay holes.
func copyFile(from, to string) error {
	if out, err := exec.Command("cp", "--sparse=always", "--reflink=auto", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w %s", from, err, out)
	}
	return nil
}

func makeFile(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}
