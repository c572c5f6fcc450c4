package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/mounter/mountertest"
)

// What the tests of this package share: a node of fakes with a driver on it, and requests to the driver.

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// world is a node: its LVM, its mounts, a folder for staging and target paths, and the driver that now runs.
type world struct {
	lvm     *lvmtest.Fake
	mounter *mountertest.Fake
	d       *Driver
	dir     string

	config Config
	vgs    []string // by name, in the order they were made
	wrap   func(mounter.Mounter) mounter.Mounter

	refusalPause time.Duration // 0 unless a test is about it
}

// option changes a world before its driver is made.
type option func(*world)

// withVG adds a VG, beside vg0 or instead of it.
func withVG(name string, o lvmtest.VGOptions) option {
	return func(w *world) { w.addVG(name, o) }
}

// withConfig edits the configuration.
func withConfig(edit func(*Config)) option { return func(w *world) { edit(&w.config) } }

// withMounter puts something between the drivers and the fake mounter.
func withMounter(wrap func(mounter.Mounter) mounter.Mounter) option {
	return func(w *world) { w.wrap = wrap }
}

// newWorld makes node-1, with vg0 of one PV of 4 GiB as the default VG unless an option makes vg0, and a driver that has not been
// started. At the end of the test the driver must stop, and no extent may have two owners.
func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	w := &world{
		lvm: lvmtest.New(), dir: t.TempDir(),
		config: Config{Name: "lvm-csi.io", Version: "test", NodeID: "node-1", DefaultVG: "vg0"},
	}
	w.mounter = mountertest.New(w.lvm)
	for _, o := range opts {
		o(w)
	}
	if !slices.Contains(w.vgs, "vg0") {
		w.addVG("vg0", lvmtest.VGOptions{PVs: []int64{4 * gib}})
	}
	if err := w.config.Check(); err != nil {
		t.Fatal(err)
	}
	w.d = w.newDriver()
	t.Cleanup(func() {
		if !w.d.Close() {
			t.Error("the driver did not stop")
		}
		if err := w.lvm.Check(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) addVG(name string, o lvmtest.VGOptions) {
	w.lvm.AddVG(name, o)
	w.vgs = append(w.vgs, name)
}

// newDriver makes one more driver on this node, as after a start of the process.
func (w *world) newDriver() *Driver {
	var m mounter.Mounter = w.mounter
	if w.wrap != nil {
		m = w.wrap(m)
	}
	d := New(w.config, lvm.New(w.lvm), m)
	d.refusalPause = w.refusalPause
	return d
}

// restart stops the driver and makes the next, which has not been started.
func (w *world) restart(t *testing.T) {
	t.Helper()
	if !w.d.Close() {
		t.Fatal("the driver did not stop")
	}
	w.d = w.newDriver()
}

// reboot is a power cut, and the driver's next start.
func (w *world) reboot(t *testing.T) {
	t.Helper()
	w.restart(t)
	w.mounter.Reboot()
}

// warm makes the driver's one look for leftovers of a killed lvm in a VG, which else comes with its first change there.
func (w *world) warm(t *testing.T, vgs ...string) {
	t.Helper()
	for _, vg := range append(vgs, "vg0") {
		if err := w.d.lvm.Backup(t.Context(), vg); err != nil {
			t.Fatal(err)
		}
	}
}

// rpc calls a method of the driver as the gRPC server does: through the interceptor.
func rpc[Q, R any](ctx context.Context, d *Driver, method func(*Driver, context.Context, Q) (R, error), req Q) (R, error) {
	resp, err := d.intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Test/" + fmt.Sprintf("%T", req)},
		func(ctx context.Context, req any) (any, error) { return method(d, ctx, req.(Q)) })
	r, _ := resp.(R)
	return r, err
}

// must calls a method that succeeds.
func must[Q, R any](t *testing.T, d *Driver, method func(*Driver, context.Context, Q) (R, error), req Q) R {
	t.Helper()
	r, err := rpc(t.Context(), d, method, req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return r
}

// fails calls a method that must answer with code and with each of words in its message, whatever the case.
func fails[Q, R any](t *testing.T, d *Driver, method func(*Driver, context.Context, Q) (R, error), req Q, code codes.Code, words ...string) {
	t.Helper()
	_, err := rpc(t.Context(), d, method, req)
	wantCode(t, err, code, words...)
}

// wantCode checks an answer's code, and that its message has each of words, whatever the case.
func wantCode(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("got %v, want %s", err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(word)) {
			t.Errorf("the message says nothing of %q: %v", word, err)
		}
	}
}

// capability asks for a filesystem, or with block for raw block, in a mode: SINGLE_NODE_WRITER if none is given.
func capability(fs string, mode ...csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if len(mode) > 0 {
		c.AccessMode.Mode = mode[0]
	}
	if fs == block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs}}
	}
	return c
}

// createRequest asks for a volume of size bytes; params are keys and values by turns.
func createRequest(name, fs string, size int64, params ...string) *csi.CreateVolumeRequest {
	req := &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability(fs)},
		CapacityRange: &csi.CapacityRange{RequiredBytes: size}, Parameters: map[string]string{},
	}
	for i := 0; i < len(params); i += 2 {
		req.Parameters[params[i]] = params[i+1]
	}
	return req
}

// create makes a volume and returns its ID.
func (w *world) create(t *testing.T, name, fs string, size int64, params ...string) string {
	t.Helper()
	return must(t, w.d, (*Driver).CreateVolume, createRequest(name, fs, size, params...)).GetVolume().GetVolumeId()
}

func deleteRequest(id string) *csi.DeleteVolumeRequest { return &csi.DeleteVolumeRequest{VolumeId: id} }

func (w *world) delete(t *testing.T, id string) {
	t.Helper()
	must(t, w.d, (*Driver).DeleteVolume, deleteRequest(id))
}

// staging is the staging path of a volume. Like kubelet's it is not there before NodeStageVolume.
func (w *world) staging(id string) string {
	return filepath.Join(w.dir, "staging", strings.NewReplacer("/", "_", ":", "_").Replace(id))
}

// target is a target path by its name. The folder above is there, as kubelet makes it.
func (w *world) target(name string) string {
	dir := filepath.Join(w.dir, "pods")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		panic(err)
	}
	return filepath.Join(dir, name)
}

func (w *world) stageRequest(id, fs string) *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: w.staging(id), VolumeCapability: capability(fs)}
}

// stage stages a volume and returns its staging path.
func (w *world) stage(t *testing.T, id, fs string) string {
	t.Helper()
	must(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, fs))
	return w.staging(id)
}

func (w *world) publishRequest(id, fs, target string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: w.staging(id), TargetPath: w.target(target), VolumeCapability: capability(fs)}
}

// publish stages and publishes a volume, and returns its target path.
func (w *world) publish(t *testing.T, id, fs, target string) string {
	t.Helper()
	w.stage(t, id, fs)
	must(t, w.d, (*Driver).NodePublishVolume, w.publishRequest(id, fs, target))
	return w.target(target)
}

func (w *world) unpublish(t *testing.T, id, target string) {
	t.Helper()
	must(t, w.d, (*Driver).NodeUnpublishVolume, unpublishRequest(id, w.target(target)))
}

func (w *world) unstage(t *testing.T, id string) {
	t.Helper()
	must(t, w.d, (*Driver).NodeUnstageVolume, unstageRequest(id, w.staging(id)))
}

func unpublishRequest(id, path string) *csi.NodeUnpublishVolumeRequest {
	return &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: path}
}

func unstageRequest(id, path string) *csi.NodeUnstageVolumeRequest {
	return &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path}
}

func expandRequest(id, path string, size int64) *csi.NodeExpandVolumeRequest {
	return &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: path, CapacityRange: &csi.CapacityRange{RequiredBytes: size}}
}

// lvOf splits an ID into the VG and the LV that it names.
func lvOf(id string) (vg, lv string) {
	vg, lv, _ = strings.Cut(id, "/")
	lv, _, _ = strings.Cut(lv, ":")
	return vg, lv
}

// find is the LV of an ID as LVM reports it now, or nil.
func (w *world) find(id string) *lvm.LV {
	vg, name := lvOf(id)
	lv, err := w.lvm.Report(vg).LV(name)
	if err != nil {
		return nil
	}
	return lv
}

// names lists the LVs of a VG.
func (w *world) names(vg string) []string {
	var names []string
	for _, lv := range w.lvm.Report(vg).LVs {
		names = append(names, lv.Name)
	}
	return names
}

// longReport is what each report asks for; spent leaves it out.
var longReport = "fullreport " + strings.Join([]string{
	"--units", "b", "--nosuffix", "--binary", "--configreport", "vg"}, " ")

// spent lists the commands that fn costs. A report is shortened to "fullreport" and what follows its fields.
func (w *world) spent(fn func()) []string {
	before := len(w.lvm.Commands())
	fn()
	all := []string{}
	for _, c := range w.lvm.Commands()[before:] {
		if strings.HasPrefix(c, longReport) {
			_, rest, _ := strings.Cut(c, "-o segtype ")
			c = "fullreport " + rest
		}
		all = append(all, c)
	}
	return all
}

// nodeState is all that is to be known of a node.
type nodeState struct {
	VGs      map[string]*lvm.VG
	Contents map[string]string // the filesystem, by "vg/lv"
	Stains   map[string][]string
	Mounts   []mounter.Mount
	Files    []string
}

// state reads the whole node, without lvm commands being counted.
func (w *world) state(t *testing.T) nodeState {
	t.Helper()
	s := nodeState{VGs: map[string]*lvm.VG{}, Contents: map[string]string{}, Stains: map[string][]string{}}
	for _, name := range w.vgs {
		vg := w.report(name)
		s.VGs[name] = vg
		if vg == nil {
			continue
		}
		for _, lv := range vg.LVs {
			s.Contents[name+"/"+lv.Name] = w.lvm.Contents(name, lv.Name)
			s.Stains[name+"/"+lv.Name] = w.lvm.Stains(name, lv.Name)
		}
	}
	var err error
	if s.Mounts, err = w.mounter.Mounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		s.Files = append(s.Files, fmt.Sprint(path, " ", e.Type()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// report is what LVM says of a VG, or nil when it cannot read it.
func (w *world) report(name string) (vg *lvm.VG) {
	defer func() { _ = recover() }()
	return w.lvm.Report(name)
}

// logs is what all drivers of this test binary log, for the tests that look at it; they reset it first. Nothing is printed.
var logs = &logBuffer{}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// all is the log since the last reset.
func (b *logBuffer) all() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

func TestMain(m *testing.M) {
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs), textlogger.Verbosity(5))))
	os.Exit(m.Run())
}
