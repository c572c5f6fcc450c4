package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

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
	if d.config.NoTools && needsTools(info.FullMethod) {
		return nil, as(errUnavailable, errors.New("this instance of the driver has no tools and says only what the plugin can do (--tools=none); ask the one of a node"))
	}
	return handler(ctx, req)
}

// needsTools tells whether a method does something: all do but those that say who the driver is and what it can do.
func needsTools(method string) bool {
	return !strings.HasPrefix(method, "/csi.v1.Identity/") && !strings.HasSuffix(method, "GetCapabilities") && !strings.HasSuffix(method, "/NodeGetInfo")
}
