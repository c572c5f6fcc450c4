//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

func quantity(mebibytes int64) resource.Quantity {
	return *resource.NewQuantity(mebibytes*mib, resource.BinarySI)
}

// TestCapacity: there is one CSIStorageCapacity for each class and node, with the number that LVM has; a node without the VG
// has zero; they follow what happens, and go with the node's pod.
func TestCapacity(t *testing.T) {
	e := setup(t)
	class := e.class(unerased)
	other := e.class(func(c *storagev1.StorageClass) { c.Parameters["volumeGroup"] = "vg1" })
	same := func() error {
		for node, want := range map[string]int64{"node-1": e.free("node-1", "vg0"), "node-2": e.free("node-2", "vg0")} {
			c, ok := e.capacities(class)[node]
			if !ok || c.Capacity == nil || c.Capacity.Value() != want || c.MaximumVolumeSize == nil || c.MaximumVolumeSize.Value() != want {
				return fmt.Errorf("of %s on %s: capacity %v, maximum %v; LVM has %d", class, node, c.Capacity, c.MaximumVolumeSize, want)
			}
		}
		if got := e.capacities(class); len(got) != len(e.nodesOn()) {
			return fmt.Errorf("%d objects of one class", len(got))
		}
		return nil
	}
	e.eventually("the numbers of vg0", same)
	e.eventually("the numbers of vg1", func() error {
		all := e.capacities(other)
		if a, b := all["node-1"], all["node-2"]; a.Capacity == nil || a.Capacity.Value() != 0 || b.Capacity == nil || b.Capacity.Value() != e.free("node-2", "vg1") {
			return fmt.Errorf("node-1 has %v, node-2 %v", a.Capacity, b.Capacity)
		}
		return nil
	})

	// The whole of what is reported is granted.
	most := e.capacities(class)["node-2"].MaximumVolumeSize.Value()
	e.claim("all", class, most/mib, nil)
	e.pod("all", []string{"all"}, onNode("node-2"))
	e.running("all")
	if got := e.volume("all").Spec.Capacity[corev1.ResourceStorage]; got.Value() != most {
		t.Errorf("the volume has %d bytes, not %d", got.Value(), most)
	}
	e.eventually("the numbers after a creation", same)
	e.deletePod("all")
	e.deleteClaim("all")
	e.eventually("the numbers after a deletion", same)

	e.claim("grow", class, 64, nil)
	e.pod("grow", []string{"grow"}, onNode("node-1"))
	e.running("grow")
	e.resize("grow", 256)
	e.grown("grow", 256)
	e.eventually("the numbers after an expansion", same)

	t.Cleanup(func() {
		e.on("node-2", "! pvs /dev/vde >/dev/null 2>&1 || { vgreduce -qq vg0 /dev/vde; pvremove -qq /dev/vde; }")
	})
	e.on("node-2", "vgextend -qq --metadatasize 4m vg0 /dev/vde")
	e.eventually("the numbers after vgextend", same)
	e.on("node-2", "vgreduce -qq vg0 /dev/vde && pvremove -qq /dev/vde")
	e.eventually("the numbers after vgreduce", same)
}

// TestCapacityGoesWithThePod: nothing is published for a node whose driver is gone.
func TestCapacityGoesWithThePod(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	// A DaemonSet that no longer selects the node takes its pod away.
	restore := func() {
		e.kubectl("-n", cluster.Namespace, "patch", "ds", "lvm-csi", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/affinity"}]`)
		e.eventually("the driver to be back", func() error { return e.driverReady() })
	}
	e.kubectl("-n", cluster.Namespace, "patch", "ds", "lvm-csi", "-p", `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"NotIn","values":["node-2"]}]}]}}}}}}}`)
	t.Cleanup(restore)
	e.eventually("the object to go", func() error {
		if _, there := e.capacities(class)["node-2"]; there {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// driverReady is nil when every pod of the driver is ready, and the DaemonSet is what it should be.
func (e *env) driverReady() error {
	ds, err := e.kube.AppsV1().DaemonSets(cluster.Namespace).Get(e.ctx, "lvm-csi", metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := ds.Status
	if want := int32(len(e.nodesOn())); s.ObservedGeneration != ds.Generation || s.NumberReady != want || s.UpdatedNumberScheduled != want {
		return fmt.Errorf("%d of %d ready, %d up to date", s.NumberReady, want, s.UpdatedNumberScheduled)
	}
	return nil
}

// resize asks for another size of a claim.
func (e *env) resize(claim string, mebibytes int64) {
	e.t.Helper()
	e.kubectl("patch", "pvc", claim, "-p", fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":"%dMi"}}}}`, mebibytes))
}

// grown waits until a claim has a size.
func (e *env) grown(claim string, mebibytes int64) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("claim %s to have %d MiB", claim, mebibytes), func() error {
		pvc, err := e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Get(e.ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := pvc.Status.Capacity[corev1.ResourceStorage]; got.Value() != mebibytes*mib {
			return fmt.Errorf("it has %s; %v", got.String(), pvc.Status.AllocatedResourceStatuses)
		}
		return nil
	})
}
