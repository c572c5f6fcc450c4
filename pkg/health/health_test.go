package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// driver is one that answers, or hangs.
type driver struct {
	csi.UnimplementedIdentityServer
	hangs bool
}

func (d driver) GetPluginInfo(ctx context.Context, _ *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	if d.hangs {
		<-ctx.Done()
	}
	return &csi.GetPluginInfoResponse{Name: "lvm-csi.io"}, ctx.Err()
}

// serve serves d, or nobody, and returns the socket's path and what ends it.
func serve(t *testing.T, d *driver) (path string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "health")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "csi.sock")
	if d == nil {
		return path, func() {}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return path, server.Stop
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	yes := func() error { return nil }
	unseen := func() error { return errors.New("LVM has not answered") }
	patience := map[bool]time.Duration{false: time.Minute, true: 50 * time.Millisecond} // by whether it hangs
	refused := func() error { return errors.New("kubelet refused the plugin: no such version") }
	for name, tc := range map[string]struct {
		driver      *driver
		checks      []func() error
		live, ready int
		notReadyFor []string
		notLiveFor  string
	}{
		"all is well":           {driver: &driver{}, checks: []func() error{yes, yes}, live: 200, ready: 200},
		"nothing else to check": {driver: &driver{}, live: 200, ready: 200},
		"LVM has not answered":  {driver: &driver{}, checks: []func() error{unseen, yes}, live: 200, ready: 503, notReadyFor: []string{"LVM has not answered"}},
		"kubelet refused":       {driver: &driver{}, checks: []func() error{yes, refused}, live: 200, ready: 503, notReadyFor: []string{"kubelet refused"}},
		"both":                  {driver: &driver{}, checks: []func() error{unseen, refused}, live: 200, ready: 503, notReadyFor: []string{"LVM has not answered", "kubelet refused"}},
		"nobody listens":        {checks: []func() error{yes}, live: 503, ready: 503, notReadyFor: []string{"does not answer"}, notLiveFor: "does not answer"},
		"the driver is stunned": {driver: &driver{hangs: true}, live: 503, ready: 503, notReadyFor: []string{"does not answer"}, notLiveFor: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := serve(t, tc.driver)
			h := handler(path, tc.checks, patience[tc.driver != nil && tc.driver.hangs])
			for range 2 {
				if code, body := get(t, h, "/healthz"); code != tc.live || !strings.Contains(body, tc.notLiveFor) || code == 200 && body != "ok\n" {
					t.Errorf("/healthz: %d %q", code, body)
				}
				code, body := get(t, h, "/readyz")
				if code != tc.ready || code == 200 && body != "ok\n" {
					t.Errorf("/readyz: %d %q", code, body)
				}
				for _, words := range tc.notReadyFor {
					if !strings.Contains(body, words) {
						t.Errorf("/readyz does not say %q: %q", words, body)
					}
				}
			}
		})
	}
}

// A driver that goes, and whose socket goes, is noticed although it was there before.
func TestDriverThatGoes(t *testing.T) {
	path, stop := serve(t, &driver{})
	h := Handler(path)
	if code, body := get(t, h, "/healthz"); code != 200 {
		t.Fatalf("%d %q", code, body)
	}
	stop()
	if code, body := get(t, h, "/healthz"); code != 503 {
		t.Errorf("%d %q", code, body)
	}
}

func TestOtherPaths(t *testing.T) {
	path, _ := serve(t, &driver{})
	if code, _ := get(t, Handler(path), "/"); code != http.StatusNotFound {
		t.Errorf("got %d", code)
	}
}
