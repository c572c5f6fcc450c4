package registration

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const endpoint = "/var/lib/kubelet/plugins/lvm-csi.io/csi.sock"

// handled is what the calls of all tests log.
var handled = &log{}

func TestMain(m *testing.M) {
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(handled))))
	os.Exit(m.Run())
}

// folder is one whose name is short enough for sockets in it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// node is a folder of kubelet's and a registration that keeps its socket there.
type node struct {
	r    *Registration
	path string
	log  *log
	stop func() // and wait
}

func serve(t *testing.T, dir string) *node {
	t.Helper()
	r := New(Plugin{Folder: dir, Name: "lvm-csi.io", Endpoint: endpoint})
	if err := r.plugin.Check(); err != nil {
		t.Fatal(err)
	}
	r.pause = time.Millisecond
	n := &node{r: r, path: filepath.Join(dir, "lvm-csi.io-reg.sock"), log: &log{}}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(n.log)))))
	var served sync.WaitGroup
	served.Go(func() { r.Serve(ctx) })
	n.stop = func() { cancel(); served.Wait() }
	t.Cleanup(n.stop)
	return n
}

type log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// until waits for what a running registration does by itself.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("10 s and no %s", what)
		}
	}
}

func dials(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// kubelet connects as kubelet does once its watcher has seen a socket.
func (n *node) kubelet(t *testing.T) api.RegistrationClient {
	t.Helper()
	until(t, "socket", func() bool { return dials(n.path) })
	conn, err := grpc.NewClient("unix://"+n.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return api.NewRegistrationClient(conn)
}

// tell is kubelet's verdict; "" accepts.
func tell(t *testing.T, c api.RegistrationClient, refusal string) {
	t.Helper()
	if _, err := c.NotifyRegistrationStatus(t.Context(), &api.RegistrationStatus{PluginRegistered: refusal == "", Error: refusal}); err != nil {
		t.Fatal(err)
	}
}

func TestRegistration(t *testing.T) {
	n := serve(t, folder(t))
	c := n.kubelet(t)
	for range 2 { // kubelet asks again after its restart
		info, err := c.GetInfo(t.Context(), &api.InfoRequest{})
		want := &api.PluginInfo{Type: "CSIPlugin", Name: "lvm-csi.io", Endpoint: endpoint, SupportedVersions: []string{"1.0.0"}}
		if diff := cmp.Diff(want, info, protocmp.Transform()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		tell(t, c, "")
		if err := n.r.Registered(); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Lstat(n.path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	for range 2 {
		n.stop()
	}
	if left, err := os.ReadDir(filepath.Dir(n.path)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNotRegisteredUntilKubeletSays(t *testing.T) {
	n := serve(t, folder(t))
	if _, err := n.kubelet(t).GetInfo(t.Context(), &api.InfoRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := n.r.Registered(); err == nil || !strings.Contains(err.Error(), "kubelet has not") {
		t.Errorf("got %v", err)
	}
}

// kubelet tries a refused plugin again and again; the driver serves on, not ready, until it is taken.
func TestRefused(t *testing.T) {
	n := serve(t, folder(t))
	c := n.kubelet(t)
	before := handled.count("kubelet refused")
	for range 3 {
		tell(t, c, "no such version")
	}
	if got := handled.count("kubelet refused") - before; got != 1 {
		t.Errorf("the same refusal was logged %d times", got)
	}
	if err := n.r.Registered(); err == nil || !strings.Contains(err.Error(), "kubelet refused the plugin: no such version") {
		t.Errorf("got %v", err)
	}
	tell(t, c, "")
	if err := n.r.Registered(); err != nil {
		t.Error(err)
	}
}

// kubelet's folder may be emptied under it: then kubelet has forgotten the plugin as well.
func TestSocketIsMadeAgain(t *testing.T) {
	n := serve(t, folder(t))
	tell(t, n.kubelet(t), "")
	for range 2 {
		if err := os.Remove(n.path); err != nil {
			t.Fatal(err)
		}
		until(t, "word that the socket is gone", func() bool { return n.r.Registered() != nil })
		tell(t, n.kubelet(t), "")
		if err := n.r.Registered(); err != nil {
			t.Error(err)
		}
	}
}

func TestFolderThatComesLater(t *testing.T) {
	dir := filepath.Join(folder(t), "plugins_registry")
	n := serve(t, dir)
	until(t, "word of the folder", func() bool { return n.log.count("folder of socket") > 0 })
	if err := n.r.Registered(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tell(t, n.kubelet(t), "")
	n.stop()
	if got := n.log.count("folder of socket"); got != 1 {
		t.Errorf("it was said %d times", got)
	}
}

// The old pod and the new one overlap for a moment. Neither takes the other's socket, whoever ends first.
func TestTwoPods(t *testing.T) {
	dir := folder(t)
	old := serve(t, dir)
	tell(t, old.kubelet(t), "")
	next := serve(t, dir)
	until(t, "word of the other", func() bool { return next.log.count("another process serves") > 0 })
	if err := old.r.Registered(); err != nil {
		t.Error(err)
	}
	next.stop()
	if !dials(old.path) {
		t.Fatal("the new pod took the old one's socket along")
	}
	next = serve(t, dir)
	old.stop()
	tell(t, next.kubelet(t), "")
	if err := next.r.Registered(); err != nil {
		t.Error(err)
	}
}

// Another's socket in place of ours is left alone while somebody serves on it, at the end too, and is replaced when it is stale.
func TestReplacedByAnothers(t *testing.T) {
	n := serve(t, folder(t))
	tell(t, n.kubelet(t), "")
	beside := filepath.Join(filepath.Dir(n.path), "other")
	other, err := net.Listen("unix", beside)
	if err != nil {
		t.Fatal(err)
	}
	other.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Rename(beside, n.path); err != nil {
		t.Fatal(err)
	}
	until(t, "word of the other", func() bool { return n.log.count("another process serves") == 1 })
	if err := n.r.Registered(); err == nil {
		t.Error("registered by another's socket")
	}
	other.Close()
	tell(t, n.kubelet(t), "")
	if err := n.r.Registered(); err != nil {
		t.Error(err)
	}
	if other, err = net.Listen("unix", beside); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.Rename(beside, n.path); err != nil {
		t.Fatal(err)
	}
	n.stop()
	if !dials(n.path) {
		t.Error("it removed another's socket")
	}
}

func TestPathThatIsTooLong(t *testing.T) {
	p := Plugin{Folder: "/" + strings.Repeat("d", 100), Name: "lvm-csi.io"}
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("got %v", err)
	}
}
