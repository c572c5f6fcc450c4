package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

// maxSocketPath is what fits in sun_path with its final zero (unix(7)).
const maxSocketPath = 107

// Listen makes the driver's socket, for root alone, in place of a stale one. path is absolute; its folder exists.
// Closing the listener leaves the file alone: by then it may be that of the next driver (Unlink only what this returned).
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s is longer than %d bytes; choose a shorter one", path, maxSocketPath)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the folder of socket %s does not exist; make it or choose another", path)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s exists and is no socket; remove it or choose another path", path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("another process serves on %s; stop it or choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the stale socket: %w", err)
		}
	}
	// Bound under another name and renamed, so that the path never leads to a socket that others may open.
	temporary := filepath.Join(filepath.Dir(path), ".~")
	_ = os.Remove(temporary)
	listener, err := net.Listen("unix", temporary)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temporary, 0o600), os.Rename(temporary, path)); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return listener, nil
}

// Serve answers CSI calls on listener until ctx ends. Then it takes no new calls, lets those in flight end within the
// time that a stop has (see Close, which comes next), and returns.
func (d *Driver) Serve(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	context.AfterFunc(ctx, func() {
		d.beginStop()
		drained := make(chan struct{})
		defer close(drained)
		go func() {
			select {
			case <-d.late:
				server.Stop()
			case <-drained:
			}
		}()
		server.GracefulStop()
	})
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("serving CSI: %w", err)
	}
	return nil
}

// intercept gives each call its logger, turns a panic and every error into a status, and logs a failed call once.
func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	logger := klog.FromContext(ctx).WithValues("method", method)
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		logger = logger.WithValues("volume", r.GetVolumeId())
	case *csi.CreateVolumeRequest:
		logger = logger.WithValues("name", r.GetName())
	}
	ctx = klog.NewContext(ctx, logger)
	logger.V(4).Info("Call", "request", protosanitizer.StripSecrets(req))
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(ctx, p)
		}
		if err = statusOf(err); err != nil {
			logger.Error(err, "Call failed", "code", status.Code(err).String(), "duration", time.Since(start).Round(time.Millisecond).String())
			return
		}
		logger.V(4).Info("Call succeeded", "duration", time.Since(start).Round(time.Millisecond).String())
	}()
	return handler(ctx, req)
}
