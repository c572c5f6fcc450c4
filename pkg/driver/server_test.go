package driver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/socket"
)

// socketDir is a folder whose name is short enough for sockets in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listen makes a listener that is closed at the end of the test.
func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serve serves w's driver and returns a connection, and what stops it and waits.
func (w *world) serve(t *testing.T) (conn *grpc.ClientConn, stop func() error) {
	t.Helper()
	path := filepath.Join(socketDir(t), "csi.sock")
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.d.Serve(ctx, listener) }()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stop = func() error { cancel(); return <-served }
	t.Cleanup(func() {
		conn.Close()
		cancel()
	})
	return conn, stop
}

func TestServe(t *testing.T) {
	w := newWorld(t)
	conn, stop := w.serve(t)
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != "lvm-csi.io" || info.GetVendorVersion() != "test" {
		t.Errorf("got %v, %v", info, err)
	}
	if _, err := csi.NewControllerClient(conn).CreateVolume(t.Context(), createRequest("pvc-1", "ext4", 64*mib)); err != nil {
		t.Error(err)
	}
	if _, err := csi.NewNodeClient(conn).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{}); err != nil {
		t.Error(err)
	}
	_, err = csi.NewControllerClient(conn).CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{})
	wantCode(t, err, codes.Unimplemented)
	_, err = csi.NewControllerClient(conn).DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{})
	wantCode(t, err, codes.InvalidArgument, "volume_id")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// SIGTERM ends the context: a call in flight gets its answer, and none is begun after.
func TestServeDrains(t *testing.T) {
	w := newWorld(t)
	w.warm(t)
	began, release := make(chan struct{}), make(chan struct{})
	w.lvm.SetHook(onCommand("lvremove", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		close(began)
		<-release
		return run()
	}))
	id := w.create(t, "pvc-1", block, 64*mib, "erase", "none")
	conn, stop := w.serve(t)
	answered := make(chan error, 1)
	go func() {
		_, err := csi.NewControllerClient(conn).DeleteVolume(t.Context(), deleteRequest(id))
		answered <- err
	}()
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-w.d.erasing.Done() // it has heard of it
	select {
	case err := <-stopped:
		t.Fatalf("it stopped during a call: %v", err)
	case <-time.After(50 * time.Millisecond): // nothing is awaited: it must not come
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if w.find(id) != nil {
		t.Error("the volume is there")
	}
	if _, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}); err == nil {
		t.Error("it answers after its end")
	}
}

// A call in flight at SIGTERM may need mkfs, which is not ended while it may still come to its end.
func TestServeDrainsMkfs(t *testing.T) {
	w := newWorld(t)
	entered, release := w.mounter.Block("Format", "vg0", "pvc-1")
	defer release()
	conn, stop := w.serve(t)
	answered := make(chan error, 1)
	go func() {
		_, err := csi.NewControllerClient(conn).CreateVolume(t.Context(), createRequest("pvc-1", "ext4", 64*mib))
		answered <- err
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-w.d.erasing.Done()
	select {
	case err := <-answered:
		t.Errorf("it was ended at once: %v", err)
	case <-time.After(50 * time.Millisecond):
		release()
		if err := <-answered; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Each failed call is logged once, with its method and volume; a successful one only for who asks for details; secrets never.
func TestLog(t *testing.T) {
	logs.reset()
	w := newWorld(t)
	conn, stop := w.serve(t)
	secrets := map[string]string{"key": "hush-hush"}
	req := createRequest("logged-1", "ext4", 64*mib)
	req.Secrets = secrets
	if _, err := csi.NewControllerClient(conn).CreateVolume(t.Context(), req); err != nil {
		t.Error(err)
	}
	node := csi.NewNodeClient(conn)
	stage := w.stageRequest("vg0/logged-2:35971be6", "ext4")
	stage.Secrets = secrets
	_, err := node.NodeStageVolume(t.Context(), stage)
	wantCode(t, err, codes.NotFound)
	bad := createRequest("logged-3", "ext4", 64*mib, "mkfsOptions", "--bad")
	bad.Secrets = secrets
	_, err = csi.NewControllerClient(conn).CreateVolume(t.Context(), bad)
	wantCode(t, err, codes.InvalidArgument)
	if err := stop(); err != nil {
		t.Error(err)
	}
	failed := map[string][]string{}
	for line := range strings.Lines(logs.all()) {
		if strings.Contains(line, "hush-hush") {
			t.Errorf("a secret is logged: %s", line)
		}
		for _, name := range []string{"logged-1", "logged-2", "logged-3"} {
			if strings.HasPrefix(line, "E") && strings.Contains(line, name) {
				failed[name] = append(failed[name], line)
			}
		}
	}
	if len(failed["logged-1"]) != 0 {
		t.Errorf("a success is logged as %q", failed["logged-1"])
	}
	for name, method := range map[string]string{"logged-2": "NodeStageVolume", "logged-3": "CreateVolume"} {
		if got := failed[name]; len(got) != 1 || !strings.Contains(got[0], `method="`+method+`"`) || !strings.Contains(got[0], "Call failed") {
			t.Errorf("errors logged of %s: %q", name, got)
		}
	}
}

func TestServeWithoutAListener(t *testing.T) {
	w := newWorld(t)
	l := listen(t, filepath.Join(socketDir(t), "csi.sock"))
	l.Close()
	if err := w.d.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
