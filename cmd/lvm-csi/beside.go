package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/health"
	"github.com/lvm-csi/lvm-csi/pkg/registration"
)

// headerPatience is how long a client of the HTTP endpoint may take to say what it wants.
const headerPatience = 5 * time.Second

// serveBeside starts what the driver serves beside CSI: the registration with kubelet and the HTTP endpoint. stop ends both and
// waits. ready is the driver's part of /readyz. Only an HTTP endpoint that cannot be had is an error.
func serveBeside(o options, ready func() error) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	checks := []func() error{ready}
	if o.plugin.Folder != "" {
		r := registration.New(o.plugin)
		checks = append(checks, r.Registered)
		running.Go(func() { r.Serve(ctx) })
	}
	stop = func() { cancel(); running.Wait() }
	if o.http == "" {
		return stop, nil
	}
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		stop()
		return nil, fmt.Errorf("--http-endpoint: %w", err)
	}
	server := &http.Server{Handler: health.Handler(o.socket, checks...), ReadHeaderTimeout: headerPatience}
	context.AfterFunc(ctx, func() { server.Close() })
	running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.Background().Error(err, "The HTTP endpoint has stopped")
		}
	})
	return stop, nil
}
