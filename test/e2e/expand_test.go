//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExpand: volumes grow while they are written, and unused ones at their next mount.
func TestExpand(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs", "block"} {
		t.Run(fs, func(t *testing.T) {
			e := share(t)
			if fs == "block" {
				e.claim("data", e.class(nil), 320, blockMode)
				e.blockPod("user", "data")
			} else {
				e.claim("data", e.class(fsType(fs)), 320, nil)
				e.pod("user", []string{"data"}, nil)
			}
			node := e.running("user")
			size := func() int64 {
				return e.number("user", map[bool]string{true: "blockdev --getsize64 /dev/data", false: "echo $(($(stat -f -c '%b * %S' /data)))"}[fs == "block"])
			}
			before := size()
			path := map[bool]string{true: "/dev/data", false: "/data/written"}[fs == "block"]
			stopped := e.writing("user", path)
			e.resize("data", 640)
			e.grown("data", 640)
			stopped()
			if now := size(); now < before*3/2 {
				t.Errorf("the pod sees %d bytes, and saw %d", now, before)
			}
			if got := e.on(node, "lvs --noheadings --nosuffix --units m -o lv_size "+lv(e.volume("data"))); !strings.HasPrefix(got, "640.") {
				t.Errorf("the LV has %s MiB", got)
			}
			e.deletePod("user")
			e.resize("data", 960)
			e.eventually("the PV to be resized", func() error {
				if got := e.volume("data").Spec.Capacity[corev1.ResourceStorage]; got.Value() != 960*mib {
					return fmt.Errorf("it has %s", got.String())
				}
				return nil
			})
			if fs == "block" {
				e.blockPod("user", "data")
			} else {
				e.pod("user", []string{"data"}, nil)
			}
			e.running("user")
			e.grown("data", 960)
			if now := size(); now < before*2 {
				t.Errorf("after its next mount the pod sees %d bytes", now)
			}
		})
	}
}

// number is what a script in a pod prints.
func (e *env) number(pod, script string) int64 {
	e.t.Helper()
	var n int64
	out := e.in(pod, script)
	if _, err := fmt.Sscan(out, &n); err != nil {
		e.t.Fatalf("%s: %q is no number", script, out)
	}
	return n
}

// TestImpossibleExpansion: it is visible on the claim, and taken back by lowering the request, also when the pod was restarted meanwhile.
func TestImpossibleExpansion(t *testing.T) {
	e := share(t)
	e.claim("data", e.class(nil), 64, nil)
	e.pod("user", []string{"data"}, nil)
	node := e.running("user")
	size, err := resource.ParseQuantity(e.on(node, "vgs --noheadings --nosuffix --units b -o vg_size vg0")) // others may free what they have
	e.check(err)
	tooMuch := size.Value()/mib + 1024
	infeasible := func() {
		e.t.Helper()
		e.eventually("the claim to say that it cannot be", func() error {
			pvc, err := e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Get(e.ctx, "data", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := pvc.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; got != corev1.PersistentVolumeClaimNodeResizeInfeasible {
				return fmt.Errorf("its status is %q", got)
			}
			return nil
		})
	}
	e.resize("data", tooMuch)
	infeasible()
	e.resize("data", 128)
	e.grown("data", 128)
	e.in("user", "echo x >/data/file; sync")

	e.resize("data", tooMuch)
	infeasible()
	e.deletePod("user")
	e.pod("again", []string{"data"}, nil)
	e.event("again", "Insufficient free space") // the mount waits for an expansion that cannot be
	e.resize("data", 192)
	e.running("again")
	e.grown("data", 192)
	if got := e.in("again", "cat /data/file"); got != "x" {
		t.Errorf("the file is %q", got)
	}
}
