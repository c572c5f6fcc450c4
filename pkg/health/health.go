// Package health answers over HTTP whether the driver lives and whether it is ready, for kubelet's probes.
//
// It asks the driver over the driver's own socket, as kubelet and the provisioner do, and its caller for what cannot be seen
// there. It refuses to ask LVM or the API server: a disk or a network that hangs must not have the driver killed.
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
const patience = 10 * time.Second

// Handler serves /healthz, whether the driver answers on its socket, and /readyz, whether it does and each of ready is nil: 200 and "ok", or
// 503 and the reasons, each on a line. socket is a path.
func Handler(socket string, ready ...func() error) http.Handler {
	return handler(socket, ready, patience)
}

func handler(socket string, ready []func() error, patience time.Duration) http.Handler {
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
		err := live(ctx, socket)
		for _, check := range ready {
			err = errors.Join(err, check())
		}
		return err
	})
	return mux
}

// live asks the driver for its name, over a connection of its own: one that was made earlier would not tell whether the socket is there still.
func live(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}); err != nil {
		return fmt.Errorf("the driver does not answer on %s: %w", socket, err)
	}
	return nil
}
