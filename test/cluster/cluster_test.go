package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReleased(t *testing.T) {
	c := component{module: "k8s.io/kubernetes", siblings: "v0.37.2"}
	got := string(c.released([]byte(`module k8s.io/kubernetes

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	go.etcd.io/etcd/client/v3 => ../client/v3
	k8s.io/kept => k8s.io/kept v0.36.1
)

replace k8s.io/mount-utils => ./staging/src/k8s.io/mount-utils
replace go.etcd.io/etcd => ./FORBIDDEN_DEPENDENCY
`)))
	want := `module k8s.io/kubernetes

replace (
	k8s.io/api => k8s.io/api v0.37.2
	go.etcd.io/etcd/client/v3 => go.etcd.io/etcd/client/v3 v0.37.2
	k8s.io/kept => k8s.io/kept v0.36.1
)

replace k8s.io/mount-utils => k8s.io/mount-utils v0.37.2

`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestComponentNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range components {
		name := c.name()
		if seen[name] || strings.ContainsAny(name, "/ ") {
			t.Errorf("name %q", name)
		}
		seen[name] = true
		other := c
		other.version += "x"
		if other.name() == name {
			t.Errorf("%s does not change with the version", name)
		}
	}
}

func TestGroups(t *testing.T) {
	n := node{NodeInfo: NodeInfo{NodeSpec: NodeSpec{Disks: []Disk{{VG: "vg0"}, {VG: "vg1"}, {}, {VG: "vg0"}}}}}
	if got := n.groups(); got != "vg0=/dev/vdc,/dev/vdf vg1=/dev/vdd" {
		t.Errorf("got %s", got)
	}
}

// The sidecars of the chart are those that the cluster builds.
func TestChartVersions(t *testing.T) {
	values, err := os.ReadFile("../../deploy/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"csi-provisioner:" + provisionerVersion, "csi-resizer:" + resizerVersion} {
		if !strings.Contains(string(values), image) {
			t.Errorf("the chart does not have %s", image)
		}
	}
}

func TestFromLines(t *testing.T) {
	text := "FROM --platform=$BUILDPLATFORM golang:1.26.8-trixie AS build\nRUN x\nFROM debian:trixie-slim\nCOPY --from=build /x /x\n"
	var got []string
	for _, match := range from.FindAllStringSubmatch(text, -1) {
		got = append(got, canonical(match[1]))
	}
	if strings.Join(got, " ") != "docker.io/library/golang:1.26.8-trixie docker.io/library/debian:trixie-slim" {
		t.Errorf("got %q", got)
	}
}

// TestProxy: the API server's way to a kubelet leads to the port of this host that belongs to the node.
func TestProxy(t *testing.T) {
	kubelet, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Close()
	go func() {
		conn, err := kubelet.Accept()
		if err == nil {
			_, _ = conn.Write([]byte("kubelet"))
			conn.Close()
		}
	}()
	dir := t.TempDir()
	p := controlPlane{dir: dir, state: &state{Nodes: []NodeInfo{{Number: 2, KubeletPort: kubelet.Addr().(*net.TCPAddr).Port}}}}
	if err := p.proxy(); err != nil {
		t.Fatal(err)
	}
	ask := func(address string) string {
		conn, err := net.Dial("unix", p.egressSocket())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		var answer bytes.Buffer
		_, _ = answer.ReadFrom(conn)
		return answer.String()
	}
	if got := ask("10.0.2.15:10250"); got != "HTTP/1.1 200 OK\r\n\r\nkubelet" {
		t.Errorf("got %q", got)
	}
	if got := ask("10.0.3.15:10250"); !strings.HasPrefix(got, "HTTP/1.1 502") {
		t.Errorf("of a node that is not there: %q", got)
	}
}

func TestConnect(t *testing.T) {
	dir := t.TempDir()
	if _, err := Connect(dir); !errors.Is(err, ErrDown) {
		t.Errorf("without a cluster: %v", err)
	}
	s := &state{dir: dir, APIPort: 1, Nodes: []NodeInfo{{Name: "node-1"}}}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, controlSocket))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	control := httptest.NewUnstartedServer((&server{state: s, nodes: map[string]*node{}}).handler(func() { asked <- "down" }))
	control.Listener.Close()
	control.Listener = listener
	control.Start()
	defer control.Close()
	c, err := Connect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := c.Nodes(); err != nil || len(nodes) != 1 || nodes[0].Name != "node-1" {
		t.Errorf("nodes: %v %v", nodes, err)
	}
	if err := c.PowerCut(context.Background(), "node-9"); err == nil || !strings.Contains(err.Error(), `no node "node-9"`) {
		t.Errorf("of a node that is not there: %v", err)
	}
	go func() {
		<-asked
		os.RemoveAll(dir)
	}()
	if err := c.Down(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKubeconfigNamesItsUser(t *testing.T) {
	p := controlPlane{dir: "/x", state: &state{Tokens: map[string]string{"admin": "secret"}}}
	if got := string(p.kubeconfig("admin", "https://127.0.0.1:1")); !strings.Contains(got, `token: "secret"`) {
		t.Errorf("got %s", got)
	}
	if _, err := json.Marshal(p.state); err != nil {
		t.Error(err)
	}
}
