//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLife: a pod writes, is deleted and made again, and comes back to its node and its data. When the claim is deleted the LV, the
// PV and the capacity are as before.
func TestLife(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs", "block"} {
		t.Run(fs, func(t *testing.T) {
			begin := share
			if fs == "ext4" {
				begin = setup // to see all of the space come back
			}
			e := begin(t)
			change, path := fsType(fs), "/data/file"
			if fs == "block" {
				change, path = nil, "/dev/data"
			}
			class := e.class(change)
			pod := func() {
				if fs == "block" {
					e.blockPod("writer", "data")
					return
				}
				e.pod("writer", []string{"data"}, nil)
			}
			if fs == "block" {
				e.claim("data", class, 512, blockMode)
			} else {
				e.claim("data", class, 512, nil)
			}
			pod()
			node := e.running("writer")
			free := e.free(node, "vg0")
			e.in("writer", "head -c 4M /dev/urandom >/tmp/x; dd if=/tmp/x of="+path+" bs=1M conv=fsync,notrunc 2>/dev/null; dd if="+path+" bs=1M count=4 2>/dev/null | sha256sum >/tmp/sum")
			sum := e.in("writer", "cat /tmp/sum")
			if fs != "block" {
				if got := e.in("writer", "stat -f -c %T /data"); !strings.Contains(got, strings.TrimSuffix(fs, "4")) {
					t.Errorf("the volume is %s, not %s", got, fs)
				}
			}
			pv := e.volume("data")
			e.deletePod("writer")
			pod()
			if again := e.running("writer"); again != node {
				t.Errorf("the pod came back to %s, not %s", again, node)
			}
			if got := e.in("writer", "dd if="+path+" bs=1M count=4 2>/dev/null | sha256sum"); got != sum {
				t.Errorf("the data is %s, not %s", got, sum)
			}
			e.deletePod("writer")
			e.deleteClaim("data")
			e.eventually("PV and LV to go", func() error {
				if err := gone(first(e.kube.CoreV1().PersistentVolumes().Get(e.ctx, pv.Name, metav1.GetOptions{}))); err != nil {
					return err
				}
				return e.left()
			})
			if now := e.free(node, "vg0"); e.alone && now != free+512*mib {
				t.Errorf("%d bytes are free, not %d", now, free+512*mib)
			}
		})
	}
}

// TestRetained: the LV of a retained PV stays, and can be bound again.
func TestRetained(t *testing.T) {
	e := share(t)
	class := e.class(func(c *storagev1.StorageClass) {
		retain := corev1.PersistentVolumeReclaimRetain
		c.ReclaimPolicy = &retain
	})
	e.claim("data", class, 64, nil)
	e.pod("one", []string{"data"}, nil)
	node := e.running("one")
	e.in("one", "echo kept >/data/file; sync")
	pv := e.volume("data")
	e.deletePod("one")
	e.deleteClaim("data")
	e.eventually("the PV to be released", func() error {
		got, err := e.kube.CoreV1().PersistentVolumes().Get(e.ctx, pv.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.VolumeReleased {
			err = fmt.Errorf("it is %s", got.Status.Phase)
		}
		return err
	})
	e.on(node, "lvs "+lv(pv))
	// Whoever wants it again takes the old claim out of the PV; its policy must be Retain until the new claim has it.
	e.kubectl("patch", "pv", pv.Name, "--type=json", "-p", `[{"op":"remove","path":"/spec/claimRef"}]`)
	e.claim("again", class, 64, func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.VolumeName = pv.Name })
	e.volume("again")
	e.kubectl("patch", "pv", pv.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	e.pod("two", []string{"again"}, nil)
	e.running("two")
	if got := e.in("two", "cat /data/file"); got != "kept" {
		t.Errorf("the file is %q", got)
	}
}

// TestStatic: an LV made by hand is mounted through a PV written by hand, with and without node affinity, and it is never deleted,
// even with reclaim policy Delete; an event says what to do.
func TestStatic(t *testing.T) {
	for _, affinity := range []bool{true, false} {
		t.Run(fmt.Sprintf("affinity-%t", affinity), func(t *testing.T) {
			e := share(t)
			const node = "node-1"
			mine := fmt.Sprintf("mine-%t", affinity)
			t.Cleanup(func() { e.on(node, "! lvs vg0/"+mine+" >/dev/null 2>&1 || lvremove -qq -y vg0/"+mine) })
			e.on(node, "lvcreate -qq -y -L 64m -n "+mine+" vg0 && mkfs.ext4 -q /dev/vg0/"+mine)
			pv := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: e.namespace},
				Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{corev1.ResourceStorage: quantity(64)}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "none",
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "vg0/" + mine, FSType: "ext4"}},
				},
			}
			if affinity {
				pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: topologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
			}
			// external-provisioner deletes only what it is annotated as the provisioner of; people copy such PVs.
			pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": driverName}
			e.check(first(e.kube.CoreV1().PersistentVolumes().Create(e.ctx, pv, metav1.CreateOptions{})))
			e.claim("data", "none", 64, func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.VolumeName = pv.Name })
			e.pod("user", []string{"data"}, func(p *corev1.Pod) {
				if !affinity {
					onNode(node)(p)
				}
			})
			e.running("user")
			e.in("user", "echo mine >/data/file; sync")
			e.deletePod("user")
			e.deleteClaim("data")
			e.event(pv.Name, "Retain")
			if got := e.kubectl("get", "pv", pv.Name, "-o", "jsonpath={.status.phase}"); got != "Failed" && got != "Released" {
				t.Errorf("the PV is %s", got)
			}
			// The administrator's way out.
			e.kubectl("patch", "pv", pv.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
			e.kubectl("delete", "pv", pv.Name, "--timeout=60s")
			e.on(node, "e2fsck -fp /dev/vg0/"+mine)
		})
	}
}
