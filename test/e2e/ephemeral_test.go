//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEphemeral: a generic ephemeral volume comes and goes with its pod, also when the pod never started and when it is deleted by force.
func TestEphemeral(t *testing.T) {
	e := share(t)
	class := e.class(nil)
	left := func() error {
		claims, err := e.kube.CoreV1().PersistentVolumeClaims(e.namespace).List(e.ctx, metav1.ListOptions{})
		if err == nil && len(claims.Items) > 0 {
			err = fmt.Errorf("claim %s is there", claims.Items[0].Name)
		}
		if err != nil {
			return err
		}
		return e.left()
	}

	e.pod("usual", nil, func(p *corev1.Pod) { e.ephemeral(p, class, 64) })
	node := e.running("usual")
	e.in("usual", "echo x >/scratch/file; sync")
	e.on(node, "lvs "+lv(e.volume("usual-scratch")))
	e.deletePod("usual")
	e.eventually("the volume to go", left)

	// Its volume is made, and its image is nowhere.
	e.pod("never", nil, func(p *corev1.Pod) {
		e.ephemeral(p, class, 64)
		p.Spec.Containers[0].Image = "localhost/nowhere:1"
	})
	e.volume("never-scratch")
	e.deletePod("never")
	e.eventually("the volume of a pod that never started to go", left)

	e.pod("forced", nil, func(p *corev1.Pod) { e.ephemeral(p, class, 64) })
	e.running("forced")
	e.kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
	e.eventually("the volume of a pod deleted by force to go", left)
}
