// Package registration tells kubelet of the driver, by kubelet's plugin registration
// (k8s.io/kubelet/pkg/apis/pluginregistration/v1): kubelet watches a folder for sockets, asks what it finds there
// who it is, and answers whether it took the plugin.
//
// It refuses to know CSI: all it tells of the driver is its name and where its socket is.
package registration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/lvm-csi/lvm-csi/pkg/socket"
)

// lookPause is between two looks at whether the socket is there still.
const lookPause = 5 * time.Second

// Plugin is what kubelet is told.
type Plugin struct {
	Folder   string // kubelet's plugins_registry, as this process sees it
	Name     string // of the driver
	Endpoint string // the CSI socket, as kubelet sees it
}

// socketPath is where kubelet finds the plugin.
func (p Plugin) socketPath() string { return filepath.Join(p.Folder, p.Name+"-reg.sock") }

// Check says what is wrong with p, or returns nil. It looks at no file.
func (p Plugin) Check() error { return socket.CheckPath(p.socketPath()) }

// Registration keeps a driver registered. Make it with New.
type Registration struct {
	api.UnimplementedRegistrationServer

	plugin Plugin
	server *grpc.Server
	pause  time.Duration // lookPause; tests look more often

	mu    sync.Mutex
	state error // nil when kubelet has accepted the plugin
}

var errWaiting = errors.New("kubelet has not asked for the plugin yet")

// New makes the registration of a plugin that has been checked.
func New(p Plugin) *Registration {
	r := &Registration{plugin: p, server: grpc.NewServer(), pause: lookPause, state: errWaiting}
	api.RegisterRegistrationServer(r.server, r)
	return r
}

// Registered is nil when kubelet has accepted the plugin; else it says what is missing.
func (r *Registration) Registered() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// change sets the state and tells whether it is another than before: what comes again and again is logged once.
func (r *Registration) change(state error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.state
	r.state = state
	return fmt.Sprint(before) != fmt.Sprint(state)
}

// Serve keeps the socket in kubelet's folder until ctx ends, and then removes it. When the socket vanishes, or is replaced by
// another's that has gone since, it is made again: kubelet's folder may be emptied. What cannot be done is logged and
// tried again.
func (r *Registration) Serve(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("socket", r.plugin.socketPath())
	var s *socket.Socket
	for {
		if s == nil || !s.Leads() {
			next, err := socket.Listen(r.plugin.socketPath())
			switch {
			case err == nil:
				if s != nil {
					logger.Info("Registering with kubelet again: the socket was gone")
					s.Close()
				}
				s = next
				r.change(errWaiting)
				go func() { _ = r.server.Serve(next) }() // ends with its socket
			case r.change(err):
				logger.Error(err, "Not registered with kubelet; trying again")
			}
		}
		select {
		case <-ctx.Done():
			if s != nil {
				if err := s.Remove(); err != nil {
					logger.Error(err, "The registration's socket stays")
				}
			}
			r.server.Stop()
			return
		case <-time.After(r.pause):
		}
	}
}

// GetInfo implements the registration service: what kubelet asks first.
func (r *Registration) GetInfo(context.Context, *api.InfoRequest) (*api.PluginInfo, error) {
	// The version is that of kubelet's plugin interface, which it compares with the 1.x.y that it knows.
	return &api.PluginInfo{Type: api.CSIPlugin, Name: r.plugin.Name, Endpoint: r.plugin.Endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements the registration service: what kubelet made of the answer. A refused plugin is not
// ready; kubelet asks again by itself.
func (r *Registration) NotifyRegistrationStatus(ctx context.Context, status *api.RegistrationStatus) (*api.RegistrationStatusResponse, error) {
	if status.GetPluginRegistered() {
		if r.change(nil) {
			klog.FromContext(ctx).Info("Registered with kubelet", "driver", r.plugin.Name, "endpoint", r.plugin.Endpoint)
		}
		return &api.RegistrationStatusResponse{}, nil
	}
	if err := fmt.Errorf("kubelet refused the plugin: %s", status.GetError()); r.change(err) {
		klog.FromContext(ctx).Error(err, "Not ready: no volume can be mounted on this node", "driver", r.plugin.Name, "endpoint", r.plugin.Endpoint)
	}
	return &api.RegistrationStatusResponse{}, nil
}
