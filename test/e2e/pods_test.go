//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// idle is what a pod does that only holds its volumes: it starts nothing, for processes are dear on an emulated node.
const idle = "trap 'exit 0' TERM; sleep infinity & wait"

// claim makes a PVC of so many MiB.
func (e *env) claim(name, class string, mebibytes int64, change func(*corev1.PersistentVolumeClaim)) {
	e.t.Helper()
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(mebibytes*mib, resource.BinarySI)}},
		},
	}
	if change != nil {
		change(pvc)
	}
	e.check(first(e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Create(e.ctx, pvc, metav1.CreateOptions{})))
}

func blockMode(pvc *corev1.PersistentVolumeClaim) {
	mode := corev1.PersistentVolumeBlock
	pvc.Spec.VolumeMode = &mode
}

// pod makes a pod that idles with claims at /data, /data1 and so on.
func (e *env) pod(name string, claims []string, change func(*corev1.Pod)) {
	e.t.Helper()
	grace := int64(2)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: e.image, Command: []string{"bash", "-c", idle}}},
		},
	}
	for i, claim := range claims {
		e.addVolume(p, fmt.Sprintf("v%d", i), strings.TrimSuffix(fmt.Sprintf("/data%d", i), "0"),
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	}
	if change != nil {
		change(p)
	}
	e.check(first(e.kube.CoreV1().Pods(e.namespace).Create(e.ctx, p, metav1.CreateOptions{})))
}

func (e *env) addVolume(p *corev1.Pod, name, path string, source corev1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
}

// blockPod makes a pod that idles with a block volume at /dev/data.
func (e *env) blockPod(name, claim string) {
	e.t.Helper()
	e.pod(name, []string{claim}, func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = nil
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v0", DevicePath: "/dev/data"}}
	})
}

// ephemeral adds a generic ephemeral volume at /scratch.
func (e *env) ephemeral(p *corev1.Pod, class string, mebibytes int64) {
	e.addVolume(p, "scratch", "/scratch", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(mebibytes*mib, resource.BinarySI)}},
		}},
	}})
}

func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": name} }
}

func (e *env) getPod(name string) *corev1.Pod {
	e.t.Helper()
	p, err := e.kube.CoreV1().Pods(e.namespace).Get(e.ctx, name, metav1.GetOptions{})
	e.check(err)
	return p
}

// running waits until pods run and returns the node of the last.
func (e *env) running(names ...string) string {
	e.t.Helper()
	node := ""
	for _, name := range names {
		e.eventually("pod "+name+" to run", func() error {
			p := e.getPod(name)
			node = p.Spec.NodeName
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("it is %s", p.Status.Phase)
		})
	}
	return node
}

// deletePod deletes a pod and waits until it is gone.
func (e *env) deletePod(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.check(e.kube.CoreV1().Pods(e.namespace).Delete(e.ctx, name, metav1.DeleteOptions{}))
	}
	for _, name := range names {
		e.eventually("pod "+name+" to go", func() error {
			return gone(first(e.kube.CoreV1().Pods(e.namespace).Get(e.ctx, name, metav1.GetOptions{})))
		})
	}
}

func (e *env) deleteClaim(name string) {
	e.t.Helper()
	e.check(e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Delete(e.ctx, name, metav1.DeleteOptions{}))
}

// gone turns the error of a Get into one that is nil when there is nothing.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it is there")
}

// in runs a script in a pod.
func (e *env) in(pod, script string) string {
	e.t.Helper()
	out, err := e.inPod(pod, script)
	if err != nil {
		e.t.Fatalf("in %s: %s: %v: %s", pod, script, err, out)
	}
	return out
}

func (e *env) inPod(pod, script string) (string, error) {
	ctx, cancel := context.WithTimeout(e.ctx, 2*time.Minute)
	defer cancel()
	out, err := e.Command(ctx, "-n", e.namespace, "exec", pod, "--", "bash", "-c", script).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// volume is the PV that a claim is bound to.
func (e *env) volume(claim string) *corev1.PersistentVolume {
	e.t.Helper()
	var pv *corev1.PersistentVolume
	e.eventually("claim "+claim+" to be bound", func() error {
		pvc, err := e.kube.CoreV1().PersistentVolumeClaims(e.namespace).Get(e.ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", pvc.Status.Phase)
		}
		pv, err = e.kube.CoreV1().PersistentVolumes().Get(e.ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
		return err
	})
	return pv
}

// lv is the LV of a PV, as LVM's commands take it: vg0/pvc-...
func lv(pv *corev1.PersistentVolume) string {
	name, _, _ := strings.Cut(pv.Spec.CSI.VolumeHandle, ":")
	return name
}

// event waits until an event of an object of the test's namespace says something.
func (e *env) event(object, text string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("an event of %s that says %q", object, text), func() error {
		events, err := e.kube.CoreV1().Events("").List(e.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var all []string
		for _, event := range events.Items {
			if strings.Contains(event.Message, text) {
				return nil
			}
			all = append(all, event.Message)
		}
		return fmt.Errorf("the events are: %s", strings.Join(all, " | "))
	})
}
