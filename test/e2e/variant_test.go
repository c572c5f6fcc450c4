//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

// TestToolsOfTheImage: with the tools of the image a volume lives as with those of the host.
func TestToolsOfTheImage(t *testing.T) {
	e := setup(t)
	host := cluster.Release{Name: "lvm-csi", Repo: e.repo, Image: e.image, Values: cluster.Values()}
	image := host
	image.Values = append([]string{"tools=image"}, host.Values...)
	t.Cleanup(func() { e.check(e.Install(e.ctx, host)) })
	e.check(e.Install(e.ctx, image))
	e.eventually("the driver to be ready", e.driverReady)
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		e.claim(fs, e.class(fsType(fs)), 320, nil)
		e.pod(fs, []string{fs}, nil)
	}
	e.running("ext4", "xfs", "btrfs")
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		e.in(fs, "echo x >/data/file; sync")
		e.resize(fs, 400)
		e.grown(fs, 400)
		e.deletePod(fs)
		e.deleteClaim(fs)
	}
	e.eventually("all to be gone", e.leftOver)
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
	e.check(n.Load(e.ctx, images))
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
