package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// maxNodes is how many nodes a cluster can have.
const maxNodes = 4

// state is what other processes need to know of a running cluster. It is in the file cluster.json of its folder.
type state struct {
	dir string
	mu  sync.Mutex

	APIPort, EtcdPort, EtcdPeerPort int
	Tokens                          map[string]string // by user
	Nodes                           []NodeInfo
}

// NodeSpec is what a node is made of.
type NodeSpec struct {
	Disks      []Disk
	KubeletDir string // "" is /var/lib/kubelet
}

// Disk is a disk of a node, beside the one that it runs from: /dev/vdc and so on.
type Disk struct {
	Size int64  // bytes
	VG   string // made of it and of the others with that name when the node is first booted; "" leaves the disk alone
}

// NodeInfo is a node of a running cluster.
type NodeInfo struct {
	NodeSpec
	Name        string // node-1
	Number      int
	AgentPort   int    // of this host
	KubeletPort int    // of this host
	Token       string // for the agent
	Off         bool
}

func nodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// Each node has a network of its own, in which QEMU is 2 and the node 15. What it connects to at 2 is this host's loopback.
func hostAddress(number int) string { return fmt.Sprintf("10.0.%d.2", number) }

// shared is the folder that a node sees as /out, in the cluster's folder.
func (n NodeInfo) shared(dir string) string { return filepath.Join(dir, n.Name, "shared") }

func (n NodeInfo) address() string { return fmt.Sprintf("10.0.%d.15", n.Number) }

func (s *state) nodes() []NodeInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.Nodes)
}

// add appends a node to the state and saves it.
func (s *state) add(n NodeInfo) error {
	s.mu.Lock()
	s.Nodes = append(s.Nodes, n)
	s.mu.Unlock()
	return s.save()
}

// setOff records whether a node is off.
func (s *state) setOff(name string, off bool) error {
	s.mu.Lock()
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			s.Nodes[i].Off = off
		}
	}
	s.mu.Unlock()
	return s.save()
}

func (s *state) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "cluster.json")
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func loadState(dir string) (*state, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return nil, err
	}
	s := &state{dir: dir}
	return s, json.Unmarshal(data, s)
}
