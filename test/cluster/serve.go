package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// server keeps a cluster up.
type server struct {
	state    *state
	plane    *controlPlane
	programs map[string]string
	data     string // the disk that those of the nodes are copies of
	log      io.Writer

	mu    sync.Mutex
	nodes map[string]*node
}

// Config is what a cluster is made of.
type Config struct {
	Dir   string // made; removed with the cluster
	Nodes []NodeSpec
	// Programs of this repository for the nodes, by name: agent.
	Programs map[string]string
	Images   []Image // that nodes have from the beginning
}

// Serve brings up a cluster and keeps it until ctx ends or somebody asks it to end (Cluster.Down). Then nothing of it is left.
func Serve(ctx context.Context, cfg Config, log io.Writer) (err error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Dir), 0o755); err != nil {
		return err
	}
	unlock, err := lock(cfg.Dir, unix.LOCK_NB)
	if err != nil {
		return fmt.Errorf("a cluster is up or coming up already: %w", err)
	}
	defer unlock()
	built, err := programs(ctx, log)
	if err != nil {
		return err
	}
	for name, path := range cfg.Programs {
		built[name] = path
	}
	if _, err := nodeImage.Ensure(ctx, log); err != nil {
		return err
	}
	if err := os.RemoveAll(cfg.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	s := &server{
		state:    &state{dir: cfg.Dir, APIPort: ports[0], EtcdPort: ports[1], EtcdPeerPort: ports[2], Tokens: map[string]string{}},
		programs: built, data: filepath.Join(cfg.Dir, "data.img"), log: log, nodes: map[string]*node{},
	}
	if err := makeData(ctx, s.data, built, cfg.Images); err != nil {
		return err
	}
	s.plane = &controlPlane{dir: cfg.Dir, programs: built, state: s.state}
	if err := errors.Join(s.plane.prepare(), os.Symlink(built["kubectl"], filepath.Join(cfg.Dir, "kubectl"))); err != nil {
		return err
	}
	ctx, down := context.WithCancel(ctx)
	defer down()
	defer s.allOff()
	for _, spec := range cfg.Nodes {
		if _, err := s.join(spec); err != nil {
			return err
		}
	}
	if err := s.plane.start(ctx); err != nil {
		return err
	}
	if err := s.state.save(); err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(cfg.Dir, controlSocket))
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "cluster: the API server is ready")
	control := &http.Server{Handler: s.handler(down)} //nolint:gosec // a socket of the user's own
	stop := context.AfterFunc(ctx, func() { _ = control.Shutdown(context.Background()) })
	defer stop()
	if err := control.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// lock keeps others from having a cluster in a folder. It waits for them unless how is unix.LOCK_NB.
func lock(dir string, how int) (unlock func(), err error) {
	file, err := os.Create(dir + ".lock")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|how); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

const controlSocket = "control.sock"

// join makes a node and powers it on.
func (s *server) join(spec NodeSpec) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.newNode(spec)
	if err != nil {
		return nil, err
	}
	s.nodes[n.Name] = n
	return n, s.on(n)
}

func (s *server) on(n *node) error {
	return n.on(filepath.Join(s.state.dir, "ca.crt"), s.state.Tokens["system:node:"+n.Name])
}

func (s *server) allOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.powerCut()
	}
}

// handler is what Cluster asks.
func (s *server) handler(down func()) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, value any, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("POST /nodes", func(w http.ResponseWriter, r *http.Request) {
		var spec NodeSpec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
			answer(w, nil, err)
			return
		}
		n, err := s.join(spec)
		if err != nil {
			answer(w, nil, err)
			return
		}
		answer(w, n.NodeInfo, nil)
	})
	mux.HandleFunc("POST /nodes/{name}/{power}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n := s.nodes[r.PathValue("name")]
		s.mu.Unlock()
		switch {
		case n == nil:
			answer(w, nil, fmt.Errorf("no node %q", r.PathValue("name")))
		case r.PathValue("power") == "on":
			answer(w, nil, errors.Join(s.on(n), s.state.setOff(n.Name, false)))
		default:
			n.powerCut()
			answer(w, nil, s.state.setOff(n.Name, true))
		}
	})
	mux.HandleFunc("POST /apiserver/{power}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("power") == "on" {
			answer(w, nil, s.plane.startAPIServer(r.Context()))
			return
		}
		s.plane.stopAPIServer()
		answer(w, nil, nil)
	})
	mux.HandleFunc("POST /down", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nil, nil)
		down()
	})
	return mux
}
