//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestFitsOnOneNode: a volume that only one node has space for lands there; one that no node has space for keeps its pod Pending with an
// event that names the shortage, until space is freed.
func TestFitsOnOneNode(t *testing.T) {
	e := setup(t)
	class := e.class(unerased)
	large := e.free("node-1", "vg0") / mib
	if other := e.free("node-2", "vg0") / mib; other >= large {
		t.Fatalf("node-2 has %d MiB free and node-1 %d", other, large)
	}
	e.claim("large", class, large, nil)
	e.pod("large", []string{"large"}, nil)
	if node := e.running("large"); node != "node-1" {
		t.Errorf("it is on %s", node)
	}
	e.claim("more", class, large, nil)
	e.pod("more", []string{"more"}, nil)
	e.event("more", "did not have enough free storage")
	if p := e.getPod("more"); p.Status.Phase != corev1.PodPending {
		t.Errorf("it is %s", p.Status.Phase)
	}
	e.deletePod("large")
	e.deleteClaim("large")
	e.running("more")
}

// TestManyPods: of 20 pods at once, whose volumes fit on the cluster and not on one node, all run.
func TestManyPods(t *testing.T) {
	e := setup(t)
	e.patience = 8 * time.Minute // most of them are on one node, which starts them all at once on one emulated processor
	class := e.class(unerased)
	const pods = 20
	one, two := e.free("node-1", "vg0"), e.free("node-2", "vg0")
	each := int64(0) // as much as fits: whole volumes on either node
	for size := (one + two) / mib / pods; size > 0; size -= 4 {
		if one/mib/size+two/mib/size >= pods {
			each = size - size%4
			break
		}
	}
	var names []string
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		e.claim(name, class, each, nil)
		names = append(names, name)
	}
	for _, name := range names {
		e.pod(name, []string{name}, nil)
	}
	on := map[string]int{}
	for _, name := range names {
		e.running(name)
		on[e.getPod(name).Spec.NodeName]++
	}
	t.Logf("%d MiB each: %v", each, on)
	if len(on) != 2 {
		t.Errorf("they are on %v", on)
	}
}

// TestStaleCapacity: a VG that was filled behind the driver's back after the scheduler had read its capacity: the pod is scheduled again
// and runs elsewhere.
func TestStaleCapacity(t *testing.T) {
	e := setup(t)
	class := e.class(nil)
	published := func() int64 {
		c := e.capacities(class)["node-1"]
		return c.Capacity.Value()
	}
	unfill := func() {
		e.on("node-1", "for lv in tick filler; do ! lvs vg0/$lv >/dev/null 2>&1 || lvremove -qq -y vg0/$lv; done")
	}
	t.Cleanup(unfill)
	e.claim("data", class, 1024, nil)
	// When a change by hand has been noticed, the next look is a whole poll interval away, which a busy machine may all the same need.
	full := e.free("node-1", "vg0")
	for try := 1; try == 1 || published() < 1024*mib; try++ {
		if try > 5 {
			t.Fatal("the capacity that is published is never stale")
		}
		unfill()
		e.eventually("all to be published", func() error {
			if now := published(); now != full {
				return fmt.Errorf("%d bytes are published, not %d", now, full)
			}
			return nil
		})
		e.on("node-1", "lvcreate -qq -y -W n -Z n -l 1 -n tick vg0")
		e.eventually("a change by hand to be published", func() error {
			if now := published(); now >= full {
				return fmt.Errorf("%d bytes are published", now)
			}
			return nil
		})
		e.on("node-1", "lvcreate -qq -y -W n -Z n -l 100%FREE -n filler vg0")
	}
	e.pod("user", []string{"data"}, nil)
	e.event("data", "insufficient free space") // from node-1, which the scheduler prefers: it has more
	if node := e.running("user"); node != "node-2" {
		t.Errorf("it runs on %s", node)
	}
	e.deletePod("user")
	e.deleteClaim("data")
	unfill()
}

// TestImmediate: with immediate binding a node with space is picked.
func TestImmediate(t *testing.T) {
	e := setup(t)
	class := e.class(func(c *storagev1.StorageClass) {
		immediate := storagev1.VolumeBindingImmediate
		c.VolumeBindingMode = &immediate
		unerased(c)
	})
	large := e.free("node-1", "vg0") / mib // node-2 has less
	e.claim("data", class, large, nil)
	pv := e.volume("data")
	e.pod("user", []string{"data"}, nil)
	if node := e.running("user"); node != "node-1" {
		t.Errorf("it runs on %s", node)
	}
	if got := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values; len(got) != 1 || got[0] != "node-1" {
		t.Errorf("the PV is tied to %v", got)
	}
}
