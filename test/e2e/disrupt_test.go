//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

// driverPod is the name of the driver's pod on a node.
func (e *env) driverPod(node string) string {
	e.t.Helper()
	pods, err := e.kube.CoreV1().Pods(cluster.Namespace).List(e.ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=node", FieldSelector: "spec.nodeName=" + node})
	e.check(err)
	if len(pods.Items) == 0 {
		e.t.Fatalf("no pod of the driver on %s", node)
	}
	return pods.Items[0].Name
}

// writing starts a writer in a pod, to a file or to a device: a line of eight bytes each half second, each after the one before. stopped fails when
// the writer has met an error or stands still, or when a line is missing.
func (e *env) writing(pod, path string) (stopped func()) {
	e.in(pod, fmt.Sprintf(`(i=0; while [ ! -e /tmp/stop ]; do
		printf '%%07d\n' $i | dd of=%[1]s bs=8 seek=$i conv=notrunc,fsync 2>/dev/null && i=$((i+1)) && echo $i >/tmp/lines || echo failed >>/tmp/failed; sleep 0.5
		done; touch /tmp/done) >/dev/null 2>&1 &`, path))
	return func() {
		e.t.Helper()
		lines := "cat /tmp/lines || echo 0"
		before := e.number(pod, lines)
		e.eventually("the writer to write on", func() error {
			if now := e.number(pod, lines); now <= before {
				return fmt.Errorf("its last line is %d", now)
			}
			return nil
		})
		e.in(pod, fmt.Sprintf(`touch /tmp/stop; until [ -e /tmp/done ]; do sleep 0.1; done; [ ! -e /tmp/failed ] &&
			n=$(cat /tmp/lines) && [ "$(dd if=%s bs=8 count=$n 2>/dev/null | sha256sum)" = "$(seq -f %%07g 0 $((n-1)) | sha256sum)" ]`, path))
	}
}

// writer makes a pod on a node, or on any if it is "", with a claim of the same name, that writes until stopped is called.
func (e *env) writer(class, name, node string) (stopped func()) {
	e.t.Helper()
	e.claim(name, class, 64, nil)
	e.pod(name, []string{name}, func(p *corev1.Pod) {
		if node != "" {
			onNode(node)(p)
		}
	})
	e.running(name)
	return e.writing(name, "/data/log")
}

// TestDriverKilled: the driver is killed while it provisions and while a pod writes, and is replaced by an update: no pod notices,
// nothing leaks, and registration and capacity come back.
func TestDriverKilled(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	stopped := e.writer(class, "writer", "node-1")

	var names []string
	for i := range 3 {
		name := fmt.Sprintf("new-%d", i)
		e.claim(name, class, 64, nil)
		e.pod(name, []string{name}, onNode("node-1"))
		names = append(names, name)
	}
	// In the middle of a CreateVolume.
	e.on("node-1", "timeout 120 bash -c 'until pgrep -x mkfs.ext4 >/dev/null; do sleep 0.02; done' && pkill -9 -x lvm-csi")
	e.running(names...)
	e.eventually("the driver to be ready again", e.driverReady)
	stopped()

	// The pod as a whole, at once, as kubectl delete --force does it.
	e.kubectl("-n", cluster.Namespace, "delete", "pod", e.driverPod("node-1"), "--force", "--grace-period=0")
	e.eventually("the driver's pod to be there again", e.driverReady)
	e.deletePod(names...)
	for _, name := range names {
		e.deleteClaim(name)
	}
	e.eventually("capacity to be published", func() error {
		if c := e.capacities(class)["node-1"]; c.Capacity == nil || c.Capacity.Value() != e.free("node-1", "vg0") {
			return fmt.Errorf("it is %v", c.Capacity)
		}
		return nil
	})
}

// TestRollingUpdate: an update of the driver is not noticed by a pod that writes, and volumes are made while it goes on.
func TestRollingUpdate(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	stopped := e.writer(class, "writer", "")
	e.kubectl("-n", cluster.Namespace, "rollout", "restart", "ds/lvm-csi")
	e.claim("new", class, 64, nil)
	e.pod("new", []string{"new"}, nil)
	e.eventually("the update to end", e.driverReady)
	e.running("new")
	stopped()
}

// TestForcedDeletion: a pod is deleted by force while its volume is mounted, and its claim at once after it. Nothing that is mounted is
// touched; in the end nothing is left.
func TestForcedDeletion(t *testing.T) {
	e := setup(t) // the only mounted volume of its node is its own
	e.claim("data", e.class(nil), 64, nil)
	e.pod("user", []string{"data"}, nil)
	node := e.running("user")
	e.in("user", "head -c 1M /dev/urandom >/data/file; sync")
	pv := e.volume("data")
	// Something on the node keeps the volume from being unmounted, as a process in the state D would.
	mounted := e.on(node, "awk '$5 ~ \"^/var/lib/kubelet/.*globalmount$\" {print $5}' /proc/1/mountinfo")
	sum := e.on(node, "cd "+mounted+" && sha256sum file")
	holder := e.on(node, "cd "+mounted+" && { setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!; }")
	letGo := sync.OnceFunc(func() { e.on(node, "kill "+holder) })
	t.Cleanup(letGo)
	e.kubectl("delete", "pod", "user", "--force", "--grace-period=0")
	e.deleteClaim("data")
	e.event(pv.Name, "it is mounted at")
	if now := e.on(node, "cd "+mounted+" && echo 3 >/proc/sys/vm/drop_caches && sha256sum file"); now != sum {
		t.Errorf("the file was %s and is %s", sum, now)
	}
	letGo()
	e.eventually("the LV to go", func() error {
		if out := e.on(node, "lvs --noheadings -o lv_name vg0"); strings.Contains(out, strings.TrimPrefix(lv(pv), "vg0/")) {
			return fmt.Errorf("it is there: %s", out)
		}
		return nil
	})
}

// TestKubeletRestarted: kubelet is killed while a pod writes; the driver is registered again and volumes are mounted.
func TestKubeletRestarted(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	stopped := e.writer(class, "writer", "node-1")
	e.on("node-1", "pkill -9 -x kubelet")
	e.claim("new", class, 64, nil)
	e.pod("new", []string{"new"}, onNode("node-1"))
	e.running("new")
	stopped()
}

// TestAPIServerAway: while there is no API server for a minute, a writer writes on, a volume is unmounted, and a driver that is killed comes
// back and is healthy. (kubelet writes into the Node object when it registers a plugin, so that waits for the API server.)
func TestAPIServerAway(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	stopped := e.writer(class, "writer", "node-1")
	e.claim("leaver", class, 64, nil)
	e.pod("leaver", []string{"leaver"}, func(p *corev1.Pod) {
		onNode("node-1")(p)
		grace := int64(10)
		p.Spec.TerminationGracePeriodSeconds = &grace
		p.Spec.Containers[0].Command = []string{"bash", "-c", "trap 'touch /data/told; sleep 5; exit 0' TERM; sleep infinity & wait"}
	})
	e.running("leaver")
	leaving := e.volume("leaver").Name
	driver, err := e.kube.CoreV1().Pods(cluster.Namespace).Get(e.ctx, e.driverPod("node-1"), metav1.GetOptions{})
	e.check(err)

	// kubelet knows that the pod is to go when it loses the API server.
	e.kubectl("delete", "pod", "leaver", "--wait=false")
	e.on("node-1", "timeout 60 bash -c 'until ls /var/lib/kubelet/pods/*/volumes/kubernetes.io~csi/"+leaving+"/mount/told >/dev/null 2>&1; do sleep 0.2; done'")
	begin := time.Now()
	e.check(e.StopAPIServer(e.ctx))
	t.Cleanup(func() { e.check(e.StartAPIServer(e.ctx)) })
	e.within(time.Minute, "the volume to be unmounted", func() error {
		device := strings.ReplaceAll(strings.TrimPrefix(leaving, "vg0/"), "-", "--") // as the device mapper writes it
		if out := e.on("node-1", fmt.Sprintf("grep -e %s -e %s /proc/1/mountinfo || [ $? = 1 ]", leaving, device)); out != "" {
			return fmt.Errorf("mounted: %s", out)
		}
		return nil
	})
	killed := e.on("node-1", "pgrep -x lvm-csi && pkill -9 -x lvm-csi")
	e.within(time.Minute, "the driver to be healthy without an API server", func() error {
		if now := e.on("node-1", "pgrep -x lvm-csi || [ $? = 1 ]"); now == "" || now == killed {
			return fmt.Errorf("it has not been started again")
		}
		out, err := e.node("node-1").Run(e.ctx, nil, "bash", "-c", fmt.Sprintf(`exec 3<>/dev/tcp/%s/9809 && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && cat <&3`, driver.Status.PodIP))
		if err == nil && !strings.Contains(out, " 200 ") {
			err = fmt.Errorf("it says: %s", out)
		}
		return err
	})
	time.Sleep(time.Until(begin.Add(time.Minute)))
	e.check(e.StartAPIServer(e.ctx))
	e.eventually("the driver to be ready", e.driverReady)
	stopped()
	e.pod("again", []string{"leaver"}, onNode("node-1"))
	e.running("again")
}

// TestPowerCut: a node loses its power and comes back. Its LVs are not active then, and the pods run again with their data.
func TestPowerCut(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	e.claim("data", class, 64, nil)
	e.pod("user", []string{"data"}, onNode("node-2"))
	e.claim("raw", class, 64, blockMode)
	e.blockPod("raw", "raw")
	e.running("user", "raw")
	for _, node := range []string{"node-1", "node-2"} {
		e.on(node, "vgchange -qq --setautoactivation n vg0")
		t.Cleanup(func() { e.on(node, "vgchange -qq --setautoactivation y vg0") })
	}
	e.in("user", "echo before >/data/file; sync")
	e.in("raw", "echo before | dd of=/dev/data conv=fsync,notrunc 2>/dev/null")
	nodes := []string{"node-2"}
	if raw := e.getPod("raw").Spec.NodeName; raw != "node-2" {
		nodes = append(nodes, raw)
	}
	for _, node := range nodes {
		e.check(e.PowerCut(e.ctx, node))
	}
	for _, node := range nodes {
		e.check(e.PowerOn(e.ctx, node))
	}
	for _, node := range nodes {
		e.within(5*time.Minute, node+" to be back", func() error {
			n := e.node(node)
			_, err := n.Run(e.ctx, nil, "test", "-e", "/run/node-up")
			return err
		})
		if active := e.on(node, "cat /run/active-at-boot"); active != "" {
			t.Errorf("LVs of %s were active before its kubelet started: %q", node, active)
		}
	}
	for pod, script := range map[string]string{"user": "cat /data/file", "raw": "head -n 1 /dev/data"} {
		e.within(5*time.Minute, pod+" to have its data", func() error {
			got, err := e.inPod(pod, script)
			if err == nil && got != "before" {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	e.within(5*time.Minute, "the driver to be ready", e.driverReady)
}
