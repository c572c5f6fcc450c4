package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/registration"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// freeAddress is one that a moment ago nobody listened on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// status asks the HTTP endpoint; 0 while there is none.
func status(t *testing.T, address, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("20 s and no %s", what)
		}
	}
}

// The whole process, without tools: it lives, is ready once kubelet has taken it, ends at SIGTERM, and takes its registration
// along; twice, as after a restart.
func TestRun(t *testing.T) {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := options{
		driver: driver.Config{Name: "lvm-csi.io", NodeID: "n1", NoTools: true}, socket: filepath.Join(dir, "csi.sock"), tools: noTools,
		plugin: registration.Plugin{Folder: dir, Name: "lvm-csi.io", Endpoint: filepath.Join(dir, "csi.sock")}, http: freeAddress(t),
	}
	registered := filepath.Join(dir, "lvm-csi.io-reg.sock")
	for range 2 {
		ended := make(chan error, 1)
		go func() { ended <- run(o) }()
		until(t, "life", func() bool { code, _ := status(t, o.http, "/healthz"); return code == http.StatusOK })
		if code, body := status(t, o.http, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "kubelet") {
			t.Errorf("ready without kubelet: %d %q", code, body)
		}
		until(t, "registration", func() bool { return accept(t.Context(), registered) == nil })
		until(t, "readiness", func() bool { code, _ := status(t, o.http, "/readyz"); return code == http.StatusOK })
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(registered); err == nil {
			t.Error("the registration's socket is there")
		}
		if code, _ := status(t, o.http, "/healthz"); code != 0 {
			t.Errorf("it answers %d after its end", code)
		}
	}
}

// An lvm whose driver is gone writes to a pipe that nobody reads.
func TestLVMSurvivesABrokenPipe(t *testing.T) {
	_ = run(options{tools: "?"}) // which fails, but sets what the programs inherit
	p := lvm.Process{Prefix: []string{"sh", "-c", "kill -PIPE $$; exit 7"}}
	if out, err := p.Run(t.Context(), "lvcreate"); err != nil || out.Code != 7 {
		t.Errorf("got %+v, %v", out, err)
	}
}

// accept is kubelet, which takes the plugin.
func accept(ctx context.Context, path string) error {
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = api.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx, &api.RegistrationStatus{PluginRegistered: true})
	return err
}

func TestRunRefusesAnHTTPEndpointThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options{driver: driver.Config{Name: "lvm-csi.io", NodeID: "n1", NoTools: true}, socket: filepath.Join(t.TempDir(), "s"), tools: noTools, http: l.Addr().String()}
	if err := run(o); err == nil || !strings.Contains(err.Error(), "--http-endpoint") {
		t.Errorf("got %v", err)
	}
}
