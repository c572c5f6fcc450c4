//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestReadWriteOncePod: a second pod does not get the volume while the first has it.
func TestReadWriteOncePod(t *testing.T) {
	e := share(t)
	e.claim("data", e.class(nil), 64, func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	e.pod("first", []string{"data"}, nil)
	e.running("first")
	e.pod("second", []string{"data"}, nil)
	e.event("second", "ReadWriteOncePod")
	if p := e.getPod("second"); p.Status.Phase != corev1.PodPending {
		t.Errorf("the second pod is %s", p.Status.Phase)
	}
	e.deletePod("first")
	e.running("second")
}

// TestTwoPods: two pods of one node share a ReadWriteOnce volume; one of them may have it read-only.
func TestTwoPods(t *testing.T) {
	e := share(t)
	e.claim("data", e.class(nil), 64, nil)
	e.pod("writer", []string{"data"}, nil)
	node := e.running("writer")
	e.pod("reader", []string{"data"}, func(p *corev1.Pod) {
		onNode(node)(p)
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	})
	e.running("reader")
	e.in("writer", "echo shared >/data/file")
	if got := e.in("reader", "cat /data/file"); got != "shared" {
		t.Errorf("the other pod reads %q", got)
	}
	if out, err := e.inPod("reader", "echo x >/data/file"); err == nil || !strings.Contains(out, "Read-only") {
		t.Errorf("the read-only pod wrote: %v %s", err, out)
	}
	e.deletePod("reader")
	e.in("writer", "echo more >>/data/file")
}

// TestMountsOfAPod: fsGroup with a pod that is not root, mount options, subPath.
func TestMountsOfAPod(t *testing.T) {
	e := share(t)
	class := e.class(func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime", "nodiratime"} })
	e.claim("data", class, 64, nil)
	e.pod("user", []string{"data"}, func(p *corev1.Pod) {
		uid, group := int64(1000), int64(2000)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid, FSGroup: &group}
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v0", MountPath: "/sub", SubPath: "a/b"})
	})
	e.running("user")
	if got := e.in("user", "echo x >/data/file && stat -c %g /data/file && echo y >/sub/file && cat /data/a/b/file && id -u"); got != "2000\ny\n1000" {
		t.Errorf("got %q", got)
	}
	if got := e.in("user", "grep ' /data ' /proc/mounts"); !strings.Contains(got, "noatime") {
		t.Errorf("mounted as %s", got)
	}
}
