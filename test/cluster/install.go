package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Namespace is where the driver is installed.
const Namespace = "lvm-csi"

// Values are those of the release on the cluster: tests need not wait a minute for capacity that changed by hand.
func Values() []string { return []string{"defaultVolumeGroup=vg0", "capacityPollInterval=15s"} }

// Release is one installation of the chart.
type Release struct {
	Name   string   // "lvm-csi"
	Repo   string   // folder of this repository
	Image  string   // the driver's, with its tag
	Values []string // for helm --set
}

// Install installs a release or brings it to what it should be now, and waits until its pods are ready.
func (c *Cluster) Install(ctx context.Context, r Release) error {
	repository, tag, _ := strings.Cut(r.Image, ":")
	words := []string{"upgrade", "--install", r.Name, filepath.Join(r.Repo, "deploy/chart"), "--namespace", Namespace, "--create-namespace",
		"--wait", "--timeout", "5m", "--set", "image.repository=" + repository, "--set", "image.tag=" + tag}
	for _, value := range r.Values {
		words = append(words, "--set", value)
	}
	return c.helm(ctx, r.Repo, words...)
}

// Uninstall removes a release.
func (c *Cluster) Uninstall(ctx context.Context, r Release) error {
	return c.helm(ctx, r.Repo, "uninstall", r.Name, "--namespace", Namespace, "--wait", "--ignore-not-found")
}

func (c *Cluster) helm(ctx context.Context, repo string, words ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(repo, "hack/helm.sh"), words...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		pods, _ := c.Command(ctx, "get", "pods", "-A", "-o", "wide").CombinedOutput()
		return fmt.Errorf("helm %s: %w\n%s\n%s", words[0], err, lastLines(string(out), 20), pods)
	}
	return nil
}

// Command is kubectl as an administrator.
func (c *Cluster) Command(ctx context.Context, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Kubectl(), words...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	return cmd
}

// WaitReady waits until every node that is on is ready.
func (c *Cluster) WaitReady(ctx context.Context, nodes ...NodeInfo) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("it takes more than 5 minutes"))
	defer cancel()
	for _, n := range nodes {
		for {
			// Not "kubectl wait": the node may not exist yet.
			out, err := c.Command(ctx, "get", "node", n.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`).Output()
			if err == nil && string(out) == "True" {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s to be ready: %w; see %s", n.Name, context.Cause(ctx), filepath.Join(c.dir, n.Name))
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	return nil
}
