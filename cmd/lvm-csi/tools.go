package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// The values of --tools.
const (
	hostTools  = "host"
	imageTools = "image"
	noTools    = "none"
)

// tools are the programs that the driver runs.
type tools struct {
	lvm    lvm.Process
	prefix []string // of those that work on a filesystem
}

// enterHost runs what follows in the namespaces of process 1: LVM's version, configuration, devices file and locks
// are then the host's, mkfs fits the host's kernel, and lvm and udevd share the semaphores by which they wait for each
// other (IPC namespace). nsenter replaces itself by the program, with the file descriptors that it was given.
//
// Paths mean the same to these programs as to the driver: devices because the pod has the host's /dev, and
// mount points, which xfs_growfs and btrfs take, because they are under kubelet's folder, from where mounts
// propagate to the host.
var enterHost = []string{"nsenter", "--target", "1", "--mount", "--ipc", "--"}

// chooseTools looks at where the process runs. proc is "/proc", and pid the process' own. On a bare host both kinds are
// the programs that the process itself sees.
func chooseTools(kind, proc string, pid int) (tools, error) {
	if kind == noTools {
		return tools{}, nil
	}
	at, err := look(proc, pid)
	switch {
	case err != nil:
		return tools{}, fmt.Errorf("--tools=%s needs root, and in a pod privileged: true and hostPID: true: %w", kind, err)
	case at.alone:
		// Without it process 1 is the pod's: host would silently be image, and the root file system's volume group would not be known.
		return tools{}, fmt.Errorf("--tools=%s needs hostPID: true in the pod: process 1 is not the host's", kind)
	case !at.container:
		return tools{}, nil
	case kind == hostTools:
		return tools{lvm: lvm.Process{Prefix: enterHost}, prefix: enterHost}, nil
	case at.udev && !at.hostIPC:
		return tools{}, errors.New("--tools=image needs hostIPC: true in the pod: lvm would wait for the host's udevd for ever")
	}
	p := lvm.Process{Config: "activation { monitoring=0 }"} // else lvm starts dmeventd, in the pod
	if !at.udev {
		p.Env = []string{"DM_DISABLE_UDEV=1"} // lvm makes the device nodes itself
	}
	return tools{lvm: p}, nil
}

// place is where a process runs.
type place struct {
	container bool // its mounts are not the host's
	alone     bool // it does not see the host's processes
	hostIPC   bool
	udev      bool // udevd runs on the host
}

// initialPIDs is the namespace of the machine's own process numbers (PROC_PID_INIT_INO, linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

func look(proc string, pid int) (place, error) {
	var links [5]string
	for i, name := range []string{"self/ns/mnt", "1/ns/mnt", "self/ns/ipc", "1/ns/ipc", "self/ns/pid"} {
		var err error
		if links[i], err = os.Readlink(filepath.Join(proc, name)); err != nil {
			return place{}, err
		}
	}
	at := place{container: links[0] != links[1], hostIPC: links[2] == links[3]}
	// A container without hostPID: the driver is its process 1, or shares the mounts of that one (an init of the image), or
	// sees the process that holds a pod's namespaces (shareProcessNamespace). Whose process 1 it is else cannot be known: that
	// of a node which is itself a container is as good.
	comm, _ := os.ReadFile(filepath.Join(proc, "1/comm"))
	at.alone = pid == 1 || !at.container && links[4] != initialPIDs || strings.TrimSpace(string(comm)) == "pause"
	_, err := os.Stat(filepath.Join(proc, "1/root/run/udev/control"))
	at.udev = err == nil
	return at, nil
}

// useOwnCgroup has lvm run in a cgroup outside the pod's, in a container: the container's end kills whatever is in its own,
// and an lvm killed between two of its steps leaves volumes suspended. Where that cannot be had it is said once.
func (t *tools) useOwnCgroup(proc string, pid int) {
	if at, err := look(proc, pid); err != nil || !at.container {
		return
	}
	folder, err := ownCgroup(filepath.Join(proc, "1/root/sys/fs/cgroup"), filepath.Join(proc, "self/exe"))
	if err != nil {
		klog.Background().Info("lvm runs in this container's cgroup, and is killed with it: do not delete the pod by force", "reason", err.Error())
		return
	}
	t.lvm.Cgroup = folder
}

// ownCgroup makes the cgroup lvm-csi below root, the host's cgroup2 file system, and starts program in it as a trial. It stays
// when the driver ends: an lvm may be in it, and the next driver uses it again.
//
// What can refuse: cgroup v1; Linux before 5.7; a container runtime that gives the pod a cgroup namespace of its own, from
// which no process gets out (cgroups(7), ENOENT); a seccomp filter without clone3.
func ownCgroup(root, program string) (*os.File, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: root, Err: err}
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("the host has no cgroup2 at /sys/fs/cgroup")
	}
	path := filepath.Join(root, "lvm-csi")
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	trial, err := os.StartProcess(program, []string{"lvm-csi", "--version"},
		&os.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}})
	if err != nil {
		folder.Close()
		return nil, fmt.Errorf("starting a process in the cgroup lvm-csi: %w", err)
	}
	if _, err := trial.Wait(); err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}
