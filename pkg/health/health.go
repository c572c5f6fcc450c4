// Package health answers over HTTP whether the driver lives and whether it is ready, for kubelet's probes.
//
// It asks the driver over the driver's own socket, as kubelet and the provisioner do. It refuses to ask LVM or the API
// server: a disk or a network that hangs must not have the driver killed.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience is how long the driver may take for an answer that costs it nothing.
const patience = 2 * time.Second

// Handler serves /healthz and /readyz: 200 and "ok", or 503 and the reasons, each on a line. socket is the path of the driver's
// socket. registered is nil when kubelet has accepted the driver; it is itself nil when the driver does not register.
func Handler(socket string, registered func() error) http.Handler {
	return handler(socket, registered, patience)
}

func handler(socket string, registered func() error, patience time.Duration) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, check func(context.Context) error) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), patience)
			defer cancel()
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			if err := check(ctx); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, err)
				return
			}
			_, _ = io.WriteString(w, "ok\n")
		})
	}
	answer("/healthz", func(ctx context.Context) error { return live(ctx, socket) })
	answer("/readyz", func(ctx context.Context) error {
		err := ready(ctx, socket)
		if registered != nil {
			err = errors.Join(err, registered())
		}
		return err
	})
	return mux
}

// live asks the driver for its name.
func live(ctx context.Context, socket string) error {
	return ask(socket, func(c csi.IdentityClient) error {
		if _, err := c.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}); err != nil {
			return fmt.Errorf("the driver does not answer on %s: %w", socket, err)
		}
		return nil
	})
}

// ready asks the driver whether it is.
func ready(ctx context.Context, socket string) error {
	return ask(socket, func(c csi.IdentityClient) error {
		probe, err := c.Probe(ctx, &csi.ProbeRequest{})
		switch {
		case err != nil:
			return fmt.Errorf("the driver does not answer on %s: %w", socket, err)
		case !probe.GetReady().GetValue():
			return errors.New("LVM has not answered yet; the driver's log says why")
		}
		return nil
	})
}

// ask makes one call over a connection of its own: one that was made earlier would not tell whether the socket is there still.
func ask(socket string, call func(csi.IdentityClient) error) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(csi.NewIdentityClient(conn))
}
