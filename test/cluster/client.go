package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// ErrDown means that no cluster is up in a folder.
var ErrDown = errors.New("no cluster is up; make cluster brings one up")

// Cluster is a running cluster, seen from any process.
type Cluster struct {
	dir   string
	state *state
}

// Dir is the folder of this user's cluster.
func Dir() (string, error) {
	cache, err := cacheDir()
	return filepath.Join(cache, "up"), err
}

// Connect finds the cluster in a folder. Errors: ErrDown.
func Connect(dir string) (*Cluster, error) {
	conn, err := net.Dial("unix", filepath.Join(dir, controlSocket))
	if err != nil {
		return nil, ErrDown
	}
	conn.Close()
	s, err := loadState(dir)
	return &Cluster{dir: dir, state: s}, err
}

// Kubeconfig is the path of a kubeconfig of an administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Kubectl is the path of kubectl.
func (c *Cluster) Kubectl() string { return filepath.Join(c.dir, "kubectl") }

// AuditLog is the path of the API server's log of the requests that service accounts make.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }

// Nodes lists the nodes, off or on.
func (c *Cluster) Nodes() ([]NodeInfo, error) {
	s, err := loadState(c.dir)
	if err != nil {
		return nil, err
	}
	return s.Nodes, nil
}

// NodesOn lists the nodes that should be running.
func (c *Cluster) NodesOn() ([]NodeInfo, error) {
	all, err := c.Nodes()
	return slices.DeleteFunc(all, func(n NodeInfo) bool { return n.Off }), err
}

// Join adds a node.
func (c *Cluster) Join(ctx context.Context, spec NodeSpec) (NodeInfo, error) {
	var n NodeInfo
	return n, c.ask(ctx, "/nodes", spec, &n)
}

// PowerCut switches a node off as a power cut does.
func (c *Cluster) PowerCut(ctx context.Context, node string) error {
	return c.ask(ctx, "/nodes/"+node+"/off", nil, nil)
}

// PowerOn boots a node.
func (c *Cluster) PowerOn(ctx context.Context, node string) error {
	return c.ask(ctx, "/nodes/"+node+"/on", nil, nil)
}

// StopAPIServer kills the API server.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.ask(ctx, "/apiserver/off", nil, nil)
}

// StartAPIServer starts it again and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	return c.ask(ctx, "/apiserver/on", nil, nil)
}

// Down ends the cluster and waits until nothing is left of it.
func (c *Cluster) Down(ctx context.Context) error {
	if err := c.ask(ctx, "/down", nil, nil); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) {
			unlock, err := lock(c.dir, 0) // its process ends now
			if err == nil {
				unlock()
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Cluster) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(c.dir, controlSocket))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cluster"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", path, bytes.TrimSpace(text))
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Run runs a program on a node as root, outside all pods, and returns what it printed. stdin may be nil. The error of
// a program that failed has its output.
func (n NodeInfo) Run(ctx context.Context, stdin io.Reader, words ...string) (string, error) {
	header, err := json.Marshal(words)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/run", n.AgentPort), stdin)
	if err != nil {
		return "", err
	}
	req.Header.Set("Words", string(header))
	req.Header.Set("Token", n.Token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", n.Name, err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return string(out), fmt.Errorf("%s: %q: %w", n.Name, words, err)
	}
	if status, err := strconv.Atoi(resp.Trailer.Get("Status")); err != nil || status != 0 || resp.StatusCode != http.StatusOK {
		return string(out), fmt.Errorf("%s: %q: exit status %s: %s", n.Name, words, resp.Trailer.Get("Status"), bytes.TrimSpace(out))
	}
	return string(out), nil
}
