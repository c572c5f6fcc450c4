// Package deploy holds what a cluster gets: image, chart, rendered manifest and examples. Here they are held to the
// Kubernetes API's types, and to the traps that design and field have taught.
package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"go/version"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

var manifest = flag.String("manifest", "lvm-csi.yaml", "the `file` to test: what helm rendered")

// decode returns each document of a file. A field that the Kubernetes API does not know, or that is there twice, fails.
func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []runtime.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(bytes.TrimSpace(regexp.MustCompile(`(?m)^(#.*|---)$`).ReplaceAll(document, nil))) == 0 {
			continue // only comments
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, document)
		}
		objects = append(objects, object)
	}
}

// only returns the one object of a kind.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		var kind T
		t.Fatalf("%d objects of kind %T, want 1", len(found), kind)
	}
	return found[0]
}

func container(t *testing.T, pod corev1.PodSpec, name string) corev1.Container {
	t.Helper()
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	return pod.Containers[i]
}

// argument returns the value of a container's --name=value.
func argument(t *testing.T, c corev1.Container, name string) string {
	t.Helper()
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("container %s has no argument --%s=", c.Name, name)
	return ""
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(content, []byte("# ")) {
				t.Error("no comment on top that says what it shows")
			}
			for _, object := range decode(t, file) {
				if class, ok := object.(*storagev1.StorageClass); ok && class.Provisioner != "lvm-csi.io" {
					t.Errorf("provisioner %s is not the driver's name", class.Provisioner)
				}
			}
			checkImages(t, content)
		})
	}
}

// checkImages wants a tag at each image, and not one that moves.
func checkImages(t *testing.T, content []byte) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^[ -]*image: *(\S+)`).FindAllSubmatch(content, -1) {
		image := string(match[1])
		if !regexp.MustCompile(`:[^/:]+$`).MatchString(image) || strings.HasSuffix(image, ":latest") {
			t.Errorf("image %s is not pinned by a tag", image)
		}
	}
}

// TestCompiler: the image's Go can build what go.mod asks for; the golang images load no other.
func TestCompiler(t *testing.T) {
	find := func(file, pattern string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(pattern).FindSubmatch(content)
		if match == nil {
			t.Fatalf("%s: no match of %s", file, pattern)
		}
		return "go" + string(match[1])
	}
	has, needs := find("Dockerfile", `golang:([0-9.]+)-`), find("../go.mod", `(?m)^go ([0-9.]+)$`)
	if version.Compare(has, needs) < 0 {
		t.Errorf("the Dockerfile builds with %s, go.mod needs %s", has, needs)
	}
}

func TestImagesArePinned(t *testing.T) {
	content, err := os.ReadFile(*manifest)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte("image: ")) {
		t.Fatal("no images")
	}
	checkImages(t, content)
}

// TestNamespaceComesFirst: one kubectl apply makes the namespace before what is in it, and privileged pods are let in.
func TestNamespaceComesFirst(t *testing.T) {
	if *manifest != "lvm-csi.yaml" {
		t.Skip("helm makes the namespace")
	}
	namespace, ok := decode(t, *manifest)[0].(*corev1.Namespace)
	if !ok || namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Error("the first document is not a Namespace that enforces pod security privileged")
	}
}

func TestCSIDriver(t *testing.T) {
	objects := decode(t, *manifest)
	spec := only[*storagev1.CSIDriver](t, objects).Spec
	if *spec.AttachRequired || *spec.PodInfoOnMount || !*spec.StorageCapacity || !*spec.SELinuxMount ||
		*spec.FSGroupPolicy != storagev1.FileFSGroupPolicy ||
		!slices.Equal(spec.VolumeLifecycleModes, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}) {
		t.Errorf("%+v", spec)
	}
	driver := container(t, only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec, "lvm-csi")
	if got, want := argument(t, driver, "driver-name"), only[*storagev1.CSIDriver](t, objects).Name; got != want {
		t.Errorf("the driver is called %s, its object %s", got, want)
	}
}

func TestNoSurge(t *testing.T) {
	update := only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.UpdateStrategy
	if surge := update.RollingUpdate.MaxSurge; surge == nil || surge.IntValue() != 0 {
		t.Error("two pods of one node would fight for one socket: maxSurge must be 0")
	}
}

// TestStopsInPeace: the driver lets operations end for up to 60 s after SIGTERM.
func TestStopsInPeace(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.Template.Spec
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 60 {
		t.Error("terminationGracePeriodSeconds must be above 60")
	}
}

// TestKubeletDirectory: what kubelet is told is true on the host and in the container, and mounts made there reach the host.
func TestKubeletDirectory(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.Template.Spec
	driver := container(t, pod, "lvm-csi")
	hostPath := map[string]*corev1.HostPathVolumeSource{}
	for _, volume := range pod.Volumes {
		hostPath[volume.Name] = volume.HostPath
	}
	var kubelet string
	for _, mount := range driver.VolumeMounts {
		if got, want := hostPath[mount.Name].Path, mount.MountPath; got != want {
			t.Errorf("%s of the host is mounted at %s; it must have the same path", got, want)
		}
		if mount.Name == "kubelet-dir" {
			kubelet = mount.MountPath
			if p := mount.MountPropagation; p == nil || *p != corev1.MountPropagationBidirectional {
				t.Error("mounts under kubelet's directory do not reach the host: mountPropagation must be Bidirectional")
			}
		}
	}
	socket := strings.TrimPrefix(argument(t, driver, "endpoint"), "unix://")
	if want := kubelet + "/plugins/" + argument(t, driver, "driver-name") + "/csi.sock"; socket != want {
		t.Errorf("the socket is %s, want %s", socket, want)
	}
	if got, want := argument(t, driver, "kubelet-registration"), kubelet+"/plugins_registry"; got != want {
		t.Errorf("registers in %s, want %s", got, want)
	}
	plugin := hostPath["plugin-dir"]
	if plugin == nil || plugin.Path != filepath.Dir(socket) || *plugin.Type != corev1.HostPathDirectoryOrCreate {
		t.Errorf("%+v: nobody makes the socket's folder %s", plugin, filepath.Dir(socket))
	}
	provisioner := container(t, pod, "csi-provisioner")
	if mounts := provisioner.VolumeMounts; len(mounts) != 1 || mounts[0].Name != "plugin-dir" ||
		argument(t, provisioner, "csi-address") != mounts[0].MountPath+"/csi.sock" {
		t.Errorf("csi-provisioner mounts %+v; it needs the socket's folder, and nothing else", mounts)
	}
}

// TestBrokenLVMDoesNotRestart: only /healthz, which asks the driver alone, may restart the container.
func TestBrokenLVMDoesNotRestart(t *testing.T) {
	driver := container(t, only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.Template.Spec, "lvm-csi")
	for _, c := range []struct {
		probe string
		got   *corev1.Probe
		path  string
	}{
		{"startup", driver.StartupProbe, "/healthz"},
		{"liveness", driver.LivenessProbe, "/healthz"},
		{"readiness", driver.ReadinessProbe, "/readyz"},
	} {
		if c.got == nil || c.got.HTTPGet == nil || c.got.HTTPGet.Path != c.path {
			t.Errorf("%s probe: %+v; it must ask %s", c.probe, c.got, c.path)
		}
	}
}

// TestOnlyTheDriverIsPrivileged: every other container has no capability, and the sidecars' sockets are their own user's.
func TestOnlyTheDriverIsPrivileged(t *testing.T) {
	objects := decode(t, *manifest)
	daemonSet := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
	if !*container(t, daemonSet, "lvm-csi").SecurityContext.Privileged {
		t.Error("lvm-csi on the node must be privileged")
	}
	unprivileged := []corev1.Container{container(t, daemonSet, "csi-provisioner")}
	if user := unprivileged[0].SecurityContext.RunAsUser; user == nil || *user != 0 {
		t.Error("the socket is root's alone: csi-provisioner must run as user 0")
	}
	for _, object := range objects {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			pod := deployment.Spec.Template.Spec
			unprivileged = append(unprivileged, pod.Containers...)
			if context := pod.SecurityContext; context.RunAsUser == nil || *context.RunAsUser == 0 {
				t.Errorf("%s needs no root", deployment.Name)
			}
			if pod.HostPID || pod.HostIPC || pod.HostNetwork {
				t.Errorf("%s needs none of the host's namespaces", deployment.Name)
			}
		}
	}
	for _, c := range unprivileged {
		context := c.SecurityContext
		if context == nil || context.Privileged != nil && *context.Privileged || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation ||
			!slices.Equal(context.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s may do more than it needs: %+v", c.Name, context)
		}
	}
}

// TestScratchKeepsNoNode: the cluster autoscaler does not remove a node with an emptyDir that it was not told to disregard.
func TestScratchKeepsNoNode(t *testing.T) {
	for _, object := range decode(t, *manifest) {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		var scratch []string
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			if volume.EmptyDir != nil {
				scratch = append(scratch, volume.Name)
			}
		}
		const key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
		if got, want := deployment.Spec.Template.Annotations[key], strings.Join(scratch, ","); got != want {
			t.Errorf("%s: annotation %s is %q, the emptyDirs are %q", deployment.Name, key, got, want)
		}
	}
}

// TestProvisioner pins the flags and variables that distributed provisioning needs.
func TestProvisioner(t *testing.T) {
	c := container(t, only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.Template.Spec, "csi-provisioner")
	for _, want := range []string{"--node-deployment", "--enable-capacity", "--capacity-for-immediate-binding=true",
		"--capacity-ownerref-level=0", "--strict-topology", "--immediate-topology=false", "--default-fstype=ext4", "--timeout=120s",
		"--retry-interval-max=30s"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("no argument %s", want)
		}
	}
	for _, want := range []string{"NODE_NAME", "NAMESPACE", "POD_NAME"} {
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == want }) {
			t.Errorf("no variable %s", want)
		}
	}
}

// TestUnmountsUnderAnyTaint: a tainted node still unmounts, and a full one does not evict what unmounts.
func TestUnmountsUnderAnyTaint(t *testing.T) {
	if *manifest != "lvm-csi.yaml" {
		t.Skip("a chart's value")
	}
	pod := only[*appsv1.DaemonSet](t, decode(t, *manifest)).Spec.Template.Spec
	if !slices.Contains(pod.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists}) || pod.PriorityClassName != "system-node-critical" {
		t.Errorf("tolerations %v, priority class %q", pod.Tolerations, pod.PriorityClassName)
	}
}
