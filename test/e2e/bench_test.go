//go:build e2e && bench

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-csi/lvm-csi/test/cluster"
)

const rounds = 20

// TestStartTimes prints what a volume adds to the time from a pod's creation until it runs, one after another and 20 at once, and what
// it takes: lvm commands, API requests of the driver's pods, memory.
func TestStartTimes(t *testing.T) {
	e := setup(t)
	release := cluster.Release{Name: "lvm-csi", Repo: e.repo, Image: e.image, Values: cluster.Values()}
	t.Cleanup(func() { e.check(e.Install(e.ctx, release)) })
	usual := release
	usual.Values = []string{"defaultVolumeGroup=vg0"} // and the chart's own for the rest
	e.check(e.Install(e.ctx, usual))
	e.eventually("the driver to be ready", e.driverReady)
	class := e.class(nil)
	for _, n := range e.nodesOn() {
		e.countCommands(n.Name)
	}
	with := func(name string) {
		e.claim(name, class, 64, nil)
		e.pod(name, []string{name}, nil)
	}
	without := func(name string) { e.pod(name, nil, nil) }
	remove := func(names ...string) {
		e.deletePod(names...)
		_ = e.kube.CoreV1().PersistentVolumeClaims(e.namespace).DeleteCollection(e.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		e.eventually("the volumes to go", e.left)
	}

	var times [2][]time.Duration
	requests, commands := e.requests(), e.commands()
	for i := range rounds + 1 {
		for kind, start := range []func(string){without, with} {
			name := fmt.Sprintf("one-%d-%d", kind, i)
			begin := time.Now()
			start(name)
			e.ready(name)
			if i > 0 { // the first warms up
				times[kind] = append(times[kind], time.Since(begin))
			}
			if kind == 1 {
				remove(name)
			} else {
				e.deletePod(name)
			}
		}
	}
	perVolume := func(n int) string { return fmt.Sprintf("%.1f", float64(n)/(rounds+1)) }
	fmt.Printf("\nmedian of %d, one after another   without %6.2f s   with a volume %6.2f s   adds %6.2f s\n", rounds,
		median(times[0]).Seconds(), median(times[1]).Seconds(), (median(times[1]) - median(times[0])).Seconds())
	fmt.Printf("for each volume, made and deleted: lvm commands %s, API requests of the driver's pods %s\n",
		perVolume(e.commands()-commands), perVolume(e.requests()-requests))

	burst := func(start func(string), kind string) (all, bound time.Duration) {
		var names []string
		begin := time.Now()
		for i := range rounds {
			names = append(names, fmt.Sprintf("%s-%d", kind, i))
			start(names[i])
		}
		if kind == "with" {
			for _, name := range names {
				e.volume(name)
			}
			bound = time.Since(begin)
		}
		for _, name := range names {
			e.ready(name)
		}
		all = time.Since(begin)
		if kind == "with" {
			e.idle()
			e.memory()
		}
		remove(names...)
		return all, bound
	}
	bare, _ := burst(without, "without")
	all, bound := burst(with, "with")
	fmt.Printf("%d at once                         without %6.2f s   with a volume %6.2f s   adds %6.2f s   all claims bound after %.2f s\n",
		rounds, bare.Seconds(), all.Seconds(), (all - bare).Seconds(), bound.Seconds())
}

// ready waits until a pod is ready, and looks often.
func (e *env) ready(name string) {
	e.t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(50 * time.Millisecond) {
		for _, c := range e.getPod(name).Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return
			}
		}
	}
	e.t.Fatalf("pod %s does not get ready", name)
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return (times[len(times)/2] + times[(len(times)-1)/2]) / 2
}

// countCommands puts a script in the place of lvm that counts and runs it. lvm looks at the name that it is called by.
func (e *env) countCommands(node string) {
	e.on(node, `[ -e /usr/lib/counted/lvm ] || { mkdir -p /usr/lib/counted && cp /usr/sbin/lvm /usr/lib/counted/lvm
cat >/usr/sbin/lvm.new <<'EOT'
#!/bin/sh
name=$(basename "$0")
[ "$name" = lvm ] || set -- "$name" "$@"
echo "$*" >>/run/lvm-commands
exec /usr/lib/counted/lvm "$@"
EOT
chmod 755 /usr/sbin/lvm.new; mv /usr/sbin/lvm.new /usr/sbin/lvm; }; touch /run/lvm-commands`)
	e.t.Cleanup(func() {
		e.on(node, "cp /usr/lib/counted/lvm /usr/sbin/lvm.new && mv /usr/sbin/lvm.new /usr/sbin/lvm && rm -r /usr/lib/counted")
	})
}

// commands is how many lvm commands the driver has run; those of leftOver, which are the tests' own, do not count.
func (e *env) commands() int {
	total := 0
	for _, n := range e.nodesOn() {
		total += len(strings.Fields(e.on(n.Name, "grep -E -o '^(fullreport|lvcreate|lvchange|lvremove|lvextend|vgcfgbackup) ' /run/lvm-commands || true")))
	}
	return total
}

// requests is how many requests the service accounts of the driver have made.
func (e *env) requests() int {
	file, err := os.Open(e.AuditLog())
	e.check(err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var event struct {
			User struct{ Username string }
			Verb string
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && strings.HasPrefix(event.User.Username, "system:serviceaccount:lvm-csi:") && event.Verb != "watch" {
			n++
		}
	}
	return n
}

// idle counts what happens in a minute of 20 mounted volumes.
func (e *env) idle() {
	time.Sleep(10 * time.Second)
	requests, commands := e.requests(), e.commands()
	time.Sleep(time.Minute)
	fmt.Printf("a minute of %d idle volumes: lvm commands %d, API requests %d\n", rounds, e.commands()-commands, e.requests()-requests)
}

// memory prints what the driver's processes hold.
func (e *env) memory() {
	for _, n := range e.nodesOn() {
		fmt.Printf("memory on %s (RSS, KiB): %s\n", n.Name, strings.Join(strings.Fields(e.on(n.Name,
			"ps -eo comm,rss | awk '$1 ~ /^(lvm-csi|csi-)/ {print $1 \"=\" $2}'")), " "))
	}
}
