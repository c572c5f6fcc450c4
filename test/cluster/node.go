package cluster

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-csi/lvm-csi/test/vm"
)

//go:embed guest/node.sh
var nodeScript string

// nodeImage is what nodes boot.
var nodeImage = vm.Spec{Packages: []string{"ca-certificates", "containernetworking-plugins", "iptables", "runc"}}

// node is a virtual machine of the cluster that this process keeps.
type node struct {
	NodeInfo
	dir     string
	apiPort int
	log     io.Writer

	mu   sync.Mutex
	off  context.CancelFunc // of the running machine; nil when it is off
	done chan struct{}      // closed when the machine is off
}

// newNode makes the disks of a node.
func (s *server) newNode(spec NodeSpec) (*node, error) {
	number := len(s.state.nodes()) + 1
	if number > maxNodes {
		return nil, fmt.Errorf("a cluster has at most %d nodes", maxNodes)
	}
	if spec.KubeletDir == "" {
		spec.KubeletDir = "/var/lib/kubelet"
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	n := &node{
		NodeInfo: NodeInfo{NodeSpec: spec, Name: nodeName(number), Number: number, AgentPort: ports[0], KubeletPort: ports[1], Token: rand.Text()},
		apiPort:  s.state.APIPort, log: s.log,
	}
	n.dir = filepath.Join(s.state.dir, n.Name)
	if err := os.MkdirAll(n.shared(s.state.dir), 0o755); err != nil {
		return nil, err
	}
	if err := copyFile(s.data, n.data()); err != nil {
		return nil, err
	}
	for i, disk := range spec.Disks {
		if err := makeFile(n.disk(i), disk.Size); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(n.dir, "node.sh"), []byte(nodeScript), 0o755); err != nil {
		return nil, err
	}
	return n, s.state.add(n.NodeInfo)
}

func (n *node) data() string      { return filepath.Join(n.dir, "data.img") }
func (n *node) disk(i int) string { return filepath.Join(n.dir, fmt.Sprintf("disk%d.img", i)) }

// groups are the VGs to make, as node.sh reads them: "vg0=/dev/vdc,/dev/vdd vg1=/dev/vde".
func (n *node) groups() string {
	devices := map[string][]string{}
	var names []string
	for i, disk := range n.Disks {
		if disk.VG == "" {
			continue
		}
		if !slices.Contains(names, disk.VG) {
			names = append(names, disk.VG)
		}
		devices[disk.VG] = append(devices[disk.VG], "/dev/vd"+string(rune('c'+i)))
	}
	var groups []string
	for _, name := range names {
		groups = append(groups, name+"="+strings.Join(devices[name], ","))
	}
	return strings.Join(groups, " ")
}

// on powers the node on, unless it is. It does not wait until the node is ready.
func (n *node) on(caPath, token string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off != nil {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "node.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	images := []string{n.data()}
	for i := range n.Disks {
		images = append(images, n.disk(i))
	}
	const forever = 1000 * time.Hour
	cfg := vm.Config{
		Spec: nodeImage, Program: filepath.Join(n.dir, "node.sh"), Files: []string{caPath}, Images: images, Out: n.shared(filepath.Dir(n.dir)),
		Env: []string{"NODE=" + n.Name, fmt.Sprintf("NUMBER=%d", n.Number), fmt.Sprintf("API_PORT=%d", n.apiPort), "TOKEN=" + token, "AGENT_TOKEN=" + n.Token,
			"KUBELET_DIR=" + n.KubeletDir, "VGS=" + n.groups()},
		QEMU: []string{"-device", "virtio-net-pci,netdev=net", "-netdev", fmt.Sprintf(
			"user,id=net,net=10.0.%d.0/24,host=%s,hostfwd=tcp:127.0.0.1:%d-:7777,hostfwd=tcp:127.0.0.1:%d-:10250",
			n.Number, hostAddress(n.Number), n.AgentPort, n.KubeletPort)},
		Memory: "3G", CPUs: 1, // more have to stop each other too often when they are emulated
		Timeout: forever, Idle: forever, Output: log, Log: log,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.off, n.done = cancel, done
	go func() {
		defer close(done)
		defer log.Close()
		if status, err := vm.Run(ctx, cfg); ctx.Err() == nil {
			fmt.Fprintf(n.log, "cluster: %s ended by itself: status %d, %v\n", n.Name, status, err)
		}
	}()
	return nil
}

// powerCut switches the node off as a power cut does.
func (n *node) powerCut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off == nil {
		return
	}
	n.off()
	<-n.done
	n.off = nil
}
