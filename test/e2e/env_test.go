//go:build e2e

package e2e

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

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

const (
	driverName  = "lvm-csi.io"
	topologyKey = "topology.lvm-csi.io/node"
	mib         = int64(1) << 20
	gib         = int64(1) << 30
)

// patience is how long something may take that takes seconds on an idle machine.
const patience = 3 * time.Minute

// connect finds the cluster once for all tests.
var connect = sync.OnceValues(func() (*shared, error) {
	dir, err := cluster.Dir()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Connect(dir)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ds, err := kube.AppsV1().DaemonSets(cluster.Namespace).Get(context.Background(), "lvm-csi", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("the driver is not installed: %w", err)
	}
	repo, err := filepath.Abs("../..")
	return &shared{Cluster: c, kube: kube, image: ds.Spec.Template.Spec.Containers[0].Image, repo: repo}, err
})

type shared struct {
	*cluster.Cluster
	kube  kubernetes.Interface
	image string // the driver's, in which pods of the tests run as well: it has a shell
	repo  string
}

// env is what one test has: a namespace of its own, in which it makes pods and claims. When the test ends they are deleted, and
// nothing of it may be left anywhere; when all have ended, nothing of the driver at all.
type env struct {
	*shared
	t         *testing.T
	ctx       context.Context
	namespace string
	patience  time.Duration   // how long a step may take
	alone     bool            // on the cluster
	lvs       map[string]bool // of volumes that the test was seen to have
}

// setup begins a test that has the cluster for itself.
func setup(t *testing.T) *env {
	t.Helper()
	e := begin(t)
	e.alone = true
	return e
}

// share begins a test that runs beside others: it leaves the driver, the nodes and most of their space alone.
func share(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	return begin(t)
}

func begin(t *testing.T) *env {
	t.Helper()
	s, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	e := &env{shared: s, t: t, ctx: context.WithoutCancel(t.Context()), namespace: fmt.Sprintf("%.40s-%d", name, time.Now().Unix()%100000), patience: patience, lvs: map[string]bool{}}
	e.check(first(s.kube.CoreV1().Namespaces().Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}, metav1.CreateOptions{})))
	t.Cleanup(e.clean)
	return e
}

func first[T any](_ T, err error) error { return err }

// check ends the test when err is an error.
func (e *env) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// clean deletes the test's namespace and looks for what is left.
func (e *env) clean() {
	if e.t.Failed() {
		e.describe()
	}
	_ = e.left()     // to know what there is
	zero := int64(1) // 0 would take pods away before kubelet has unmounted
	pods := e.kube.CoreV1().Pods(e.namespace)
	_ = pods.DeleteCollection(e.ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{})
	_ = e.kube.CoreV1().Namespaces().Delete(e.ctx, e.namespace, metav1.DeleteOptions{})
	e.eventually("the namespace to go", func() error {
		_, err := e.kube.CoreV1().Namespaces().Get(e.ctx, e.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	e.eventually("nothing to be left over", e.left)
}

// left says what there is of the test's volumes, or of anybody's when it is alone, when there should be nothing.
func (e *env) left() error {
	if e.alone {
		return e.leftOver(e.ctx)
	}
	volumes, err := e.kube.CoreV1().PersistentVolumes().List(e.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pv := range volumes.Items {
		if pv.Spec.CSI != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == e.namespace {
			e.lvs[strings.TrimPrefix(lv(&pv), "vg0/")] = true
			err = fmt.Errorf("PV %s is left", pv.Name)
		}
	}
	if err != nil {
		return err
	}
	for _, n := range e.nodesOn() {
		out, err := n.Run(e.ctx, nil, "sh", "-c", "lvs --noheadings -o lv_name; dmsetup ls; cat /proc/1/mountinfo")
		if err != nil {
			return err
		}
		for name := range e.lvs {
			for line := range strings.Lines(out) {
				if strings.Contains(line, name) || strings.Contains(line, strings.ReplaceAll(name, "-", "--")) {
					return fmt.Errorf("%s has left: %s", n.Name, line)
				}
			}
		}
	}
	return nil
}

// leftOver says what there is of the driver on the cluster, when there should be nothing.
func (s *shared) leftOver(ctx context.Context) error {
	volumes, err := s.kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pv := range volumes.Items {
		if pv.Spec.CSI != nil && strings.HasPrefix(pv.Spec.CSI.Driver, driverName) {
			return fmt.Errorf("PV %s is left", pv.Name)
		}
	}
	if err := s.strayCapacity(ctx); err != nil {
		return err
	}
	nodes, err := s.NodesOn()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		// A mounted device node is a file of devtmpfs: mountinfo's fourth field.
		out, err := n.Run(ctx, nil, "sh", "-c", `lvs --noheadings -o vg_name,lv_name,lv_tags; grep ' /dev/mapper/vg[0-9]' /proc/1/mountinfo; awk '$4 ~ "^/dm-"' /proc/1/mountinfo; dmsetup ls | grep -v '^No devices'; true`)
		if err != nil {
			return err
		}
		if text := strings.TrimSpace(out); text != "" {
			return fmt.Errorf("%s has left: %s", n.Name, text)
		}
	}
	return nil
}

// strayCapacity finds capacity objects of classes that are gone, and a second one for a class and a node.
func (s *shared) strayCapacity(ctx context.Context) error {
	classes, err := s.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	all, err := s.kube.StorageV1().CSIStorageCapacities(cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	seen := map[[2]string]bool{}
	for _, c := range all.Items {
		if !slices.ContainsFunc(classes.Items, func(class storagev1.StorageClass) bool { return class.Name == c.StorageClassName }) {
			return fmt.Errorf("capacity object %s of class %s, which is gone, is left", c.Name, c.StorageClassName)
		}
		key := [2]string{c.StorageClassName, c.NodeTopology.MatchLabels[topologyKey]}
		if seen[key] {
			return fmt.Errorf("there are two capacity objects of class %s and node %s", key[0], key[1])
		}
		seen[key] = true
	}
	return nil
}

// nodesOn are the nodes that should be running.
func (e *env) nodesOn() []cluster.NodeInfo {
	e.t.Helper()
	all, err := e.NodesOn()
	e.check(err)
	return all
}

// node is a node by its name.
func (e *env) node(name string) cluster.NodeInfo {
	e.t.Helper()
	all, err := e.Nodes()
	e.check(err)
	i := slices.IndexFunc(all, func(n cluster.NodeInfo) bool { return n.Name == name })
	if i < 0 {
		e.t.Fatalf("no node %q", name)
	}
	return all[i]
}

// on runs a script on a node, outside all pods.
func (e *env) on(node, script string) string {
	e.t.Helper()
	out, err := e.node(node).Run(e.ctx, nil, "bash", "-c", script)
	e.check(err)
	return strings.TrimSpace(out)
}

// eventually waits until try returns nil.
func (e *env) eventually(what string, try func() error) {
	e.t.Helper()
	e.within(e.patience, what, try)
}

func (e *env) within(limit time.Duration, what string, try func() error) {
	e.t.Helper()
	for begin := time.Now(); ; time.Sleep(250 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Since(begin) > limit {
			e.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// kubectl runs kubectl in the test's namespace.
func (e *env) kubectl(words ...string) string {
	e.t.Helper()
	out, err := e.Command(e.ctx, append([]string{"-n", e.namespace}, words...)...).CombinedOutput()
	if err != nil {
		e.t.Fatalf("kubectl %q: %v: %s", words, err, out)
	}
	return string(out)
}

// describe prints what there is when a test has failed.
func (e *env) describe() {
	for _, words := range [][]string{
		{"get", "pods,pvc,pv", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"-n", cluster.Namespace, "get", "pods", "-o", "wide"}, {"get", "csistoragecapacities", "-A"},
		{"-n", cluster.Namespace, "logs", "-l", "app.kubernetes.io/component=node", "-c", "lvm-csi", "--tail=40", "--prefix"},
		{"-n", cluster.Namespace, "logs", "-l", "app.kubernetes.io/component=node", "-c", "csi-provisioner", "--tail=20", "--prefix"},
	} {
		out, _ := e.Command(e.ctx, append([]string{"-n", e.namespace}, words...)...).CombinedOutput()
		e.t.Logf("kubectl %s:\n%s", strings.Join(words, " "), out)
	}
}

// class makes a StorageClass for the test.
func (e *env) class(change func(*storagev1.StorageClass)) string {
	e.t.Helper()
	wait, grow := storagev1.VolumeBindingWaitForFirstConsumer, true
	c := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Provisioner: driverName,
		VolumeBindingMode: &wait, AllowVolumeExpansion: &grow, Parameters: map[string]string{"volumeGroup": "vg0"},
	}
	if change != nil {
		change(c)
	}
	c, err := e.kube.StorageV1().StorageClasses().Create(e.ctx, c, metav1.CreateOptions{})
	e.check(err)
	e.t.Cleanup(func() {
		_ = e.kube.StorageV1().StorageClasses().Delete(context.Background(), c.Name, metav1.DeleteOptions{})
	})
	want := len(e.nodesOn())
	if c.Provisioner != driverName {
		want = 1 // that of TestKubeletDir is on one node
	}
	e.eventually("capacity of the class", func() error {
		if found := e.capacities(c.Name); len(found) < want {
			return fmt.Errorf("%d objects", len(found))
		}
		return nil
	})
	return c.Name
}

// unerased is for large volumes: writing zeroes to gigabytes shows nothing that a small volume does not.
func unerased(c *storagev1.StorageClass) { c.Parameters["erase"] = "none" }

func fsType(name string) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) { c.Parameters["csi.storage.k8s.io/fstype"] = name }
}

// capacities are the CSIStorageCapacity objects of a class, by node.
func (e *env) capacities(class string) map[string]storagev1.CSIStorageCapacity {
	e.t.Helper()
	all, err := e.kube.StorageV1().CSIStorageCapacities(cluster.Namespace).List(e.ctx, metav1.ListOptions{})
	e.check(err)
	byNode := map[string]storagev1.CSIStorageCapacity{}
	for _, c := range all.Items {
		if c.StorageClassName == class {
			byNode[c.NodeTopology.MatchLabels[topologyKey]] = c
		}
	}
	return byNode
}

// free are the bytes that LVM itself says are free in a VG.
func (e *env) free(node, vg string) int64 {
	e.t.Helper()
	q, err := resource.ParseQuantity(e.on(node, "vgs --noheadings --nosuffix --units b -o vg_free "+vg))
	e.check(err)
	return q.Value()
}

func TestMain(m *testing.M) {
	s, err := connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	for begin := time.Now(); ; time.Sleep(time.Second) {
		err := s.leftOver(context.Background())
		if err == nil {
			break
		}
		if time.Since(begin) > patience {
			fmt.Fprintln(os.Stderr, "e2e: when all had ended:", err)
			os.Exit(1)
		}
	}
	os.Exit(code)
}
