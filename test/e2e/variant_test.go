//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

// TestExamples: the API server takes the manifest for those without Helm, and the examples run as they are, but for their image.
func TestExamples(t *testing.T) {
	e := share(t)
	apply := func(words ...string) {
		e.t.Helper()
		out, err := e.Command(e.ctx, append([]string{"apply"}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl apply %q: %v: %s", words, err, out)
		}
	}
	apply("--dry-run=server", "-f", filepath.Join(e.repo, "deploy/lvm-csi.yaml"))
	examples, err := filepath.Glob(filepath.Join(e.repo, "deploy/examples/*.yaml"))
	e.check(err)
	image := regexp.MustCompile(`image: \S+`)
	for _, example := range examples {
		text, err := os.ReadFile(example)
		e.check(err)
		local := filepath.Join(t.TempDir(), filepath.Base(example))
		e.check(os.WriteFile(local, image.ReplaceAll(text, []byte("image: "+e.image)), 0o600))
		if strings.HasPrefix(filepath.Base(example), "storageclass-") {
			t.Cleanup(func() { _, _ = e.Command(e.ctx, "delete", "--ignore-not-found", "-f", local).CombinedOutput() })
			apply("-f", local)
			continue
		}
		// The classes come later by their names; what needs them waits.
		apply("-n", e.namespace, "-f", local)
	}
	e.eventually("the StatefulSet to be made", func() error {
		return first(e.kube.CoreV1().Pods(e.namespace).Get(e.ctx, "writer-0", metav1.GetOptions{}))
	})
	e.running("scratch", "writer-0")
	e.eventually("the StatefulSet to be ready", func() error {
		s, err := e.kube.AppsV1().StatefulSets(e.namespace).Get(e.ctx, "writer", metav1.GetOptions{})
		if err == nil && s.Status.ReadyReplicas != *s.Spec.Replicas {
			err = fmt.Errorf("%d of %d", s.Status.ReadyReplicas, *s.Spec.Replicas)
		}
		return err
	})
}

// TestToolsOfTheImage: with the tools of the image a volume lives as with those of the host, which are away meanwhile.
func TestToolsOfTheImage(t *testing.T) {
	e := setup(t)
	host := cluster.Release{Name: "lvm-csi", Repo: e.repo, Image: e.image, Values: cluster.Values()}
	image := host
	image.Values = append([]string{"tools=image"}, host.Values...)
	t.Cleanup(func() { e.check(e.Install(e.ctx, host)) })
	e.check(e.Install(e.ctx, image))
	const away = "for tool in lvm mkfs.ext4 mke2fs mkfs.xfs mkfs.btrfs blkid resize2fs xfs_growfs; do p=/usr/sbin/$tool; "
	for _, n := range e.nodesOn() {
		// Some are links to others, and dangle while those are away.
		t.Cleanup(func() { e.on(n.Name, away+"mv $p.away $p 2>/dev/null; done; ! ls /usr/sbin/*.away 2>/dev/null") })
		e.on(n.Name, away+"mv $p $p.away 2>/dev/null; done; ! ls /usr/sbin/lvm /usr/sbin/mkfs.ext4 2>/dev/null")
	}
	e.eventually("the driver to be ready", e.driverReady)
	all := []string{"ext4", "xfs", "btrfs", "block"}
	for _, fs := range all {
		if fs == "block" {
			e.claim(fs, e.class(nil), 320, blockMode)
			e.blockPod(fs, fs)
			continue
		}
		e.claim(fs, e.class(fsType(fs)), 320, nil)
		e.pod(fs, []string{fs}, nil)
	}
	e.running(all...)
	for _, fs := range all {
		if fs != "block" {
			e.in(fs, "echo x >/data/file; sync")
		}
		e.resize(fs, 400)
		e.grown(fs, 400)
	}
	e.deletePod(all...)
	for _, fs := range all {
		pv := e.volume(fs).Name
		e.deleteClaim(fs)
		e.eventually("the volume to go", func() error {
			return gone(first(e.kube.CoreV1().PersistentVolumes().Get(e.ctx, pv, metav1.GetOptions{})))
		})
	}
}

// TestKubeletDir: a node joins whose kubelet has its directory elsewhere; a second installation, with a name of its own, serves it.
func TestKubeletDir(t *testing.T) {
	e := setup(t)
	const dir, name = "/var/lib/k0s/kubelet", "lvm-csi.io.k0s"
	all, err := e.Nodes()
	e.check(err)
	var n cluster.NodeInfo
	for _, other := range all {
		if other.KubeletDir == dir {
			n = other
		}
	}
	if n.Name == "" {
		n, err = e.Join(e.ctx, cluster.NodeSpec{KubeletDir: dir, Disks: []cluster.Disk{{Size: 4 * gib, VG: "vg0"}}})
		e.check(err)
	} else {
		e.check(e.PowerOn(e.ctx, n.Name))
	}
	release := cluster.Release{Name: "k0s", Repo: e.repo, Image: e.image, Values: []string{
		"defaultVolumeGroup=vg0", "kubeletDir=" + dir, "driverName=" + name, "node.nodeSelector.kubernetes\\.io/hostname=" + n.Name, "resizer.enabled=false"}}
	t.Cleanup(func() {
		e.check(e.Uninstall(e.ctx, release))
		// The other tests want the nodes that they know.
		e.check(e.PowerCut(e.ctx, n.Name))
		e.kubectl("delete", "node", n.Name)
		e.kubectl("-n", cluster.Namespace, "delete", "pods", "--field-selector=spec.nodeName="+n.Name, "--force", "--grace-period=0")
	})
	e.check(e.WaitReady(e.ctx, n))
	images, err := cluster.Built()
	e.check(err)
	e.check(e.Load(e.ctx, n, images))
	e.check(e.Install(e.ctx, release))
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	class := e.class(func(c *storagev1.StorageClass) {
		c.Provisioner, c.VolumeBindingMode = name, &wait
	})
	e.claim("data", class, 64, nil)
	e.pod("user", []string{"data"}, nil)
	if node := e.running("user"); node != n.Name {
		t.Errorf("it runs on %s", node)
	}
	e.in("user", "echo x >/data/file; sync")
	if got := e.on(n.Name, "grep -c "+dir+"/pods.*/mount /proc/1/mountinfo"); got == "0" {
		t.Error("nothing is mounted in that directory")
	}
	e.deletePod("user")
	e.deleteClaim("data")
	e.within(2*time.Minute, "the volume to go", func() error {
		if got := e.on(n.Name, "lvs --noheadings vg0"); got != "" {
			return fmt.Errorf("LVs: %s", got)
		}
		return nil
	})
}
