package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// component is programs that are built from one Go module, with the very dependencies that its authors pinned.
type component struct {
	module   string
	version  string
	packages []string // within the module
	// siblings is the version of the modules that the authors replace by folders of their repository.
	siblings string
	tags     string
	ldflags  string
}

// KubernetesVersion is the release that clusters run.
const KubernetesVersion = "v1.37.2"

// The releases of the sidecars, which are those of the chart.
const (
	provisionerVersion = "v6.4.0"
	resizerVersion     = "v2.3.0"
)

var components = []component{
	{
		module: "k8s.io/kubernetes", version: KubernetesVersion, siblings: "v0.37.2",
		packages: []string{"./cmd/kube-apiserver", "./cmd/kube-controller-manager", "./cmd/kube-scheduler", "./cmd/kubelet", "./cmd/kubectl"},
		ldflags:  "-X k8s.io/component-base/version.gitVersion=" + KubernetesVersion,
	},
	{module: "go.etcd.io/etcd/server/v3", version: "v3.6.6", siblings: "v3.6.6", packages: []string{"."}},
	{
		module: "github.com/containerd/containerd/v2", version: "v2.2.1", tags: "no_btrfs,no_devmapper,no_zfs",
		packages: []string{"./cmd/containerd", "./cmd/containerd-shim-runc-v2", "./cmd/ctr"},
	},
	{module: "github.com/kubernetes-csi/external-provisioner/v6", version: provisionerVersion, packages: []string{"./cmd/csi-provisioner"}},
	{module: "github.com/kubernetes-csi/external-resizer/v2", version: resizerVersion, packages: []string{"./cmd/csi-resizer"}},
}

// programs builds what is missing of the components and returns the paths of all their programs, by name.
func programs(ctx context.Context, log io.Writer) (map[string]string, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, c := range components {
		dir := filepath.Join(cache, c.name())
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(log, "cluster: building %s %s, once\n", c.module, c.version)
			begin := time.Now()
			if err := c.build(ctx, dir, log); err != nil {
				return nil, fmt.Errorf("building %s: %w", c.module, err)
			}
			fmt.Fprintf(log, "cluster: built in %.0f s: %s\n", time.Since(begin).Seconds(), dir)
		}
		built, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, program := range built {
			all[program.Name()] = filepath.Join(dir, program.Name())
		}
	}
	all["etcd"] = all["server"] // the last element of its module's path
	return all, nil
}

// name is the folder of the component in the cache: everything that its programs are made of.
func (c component) name() string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.module, c.version, c.siblings, c.tags, c.ldflags, runtime.Version()}, c.packages...), "\n")))
	return "build-" + filepath.Base(majorVersion.ReplaceAllString(c.module, "")) + "-" + c.version + "-" + hex.EncodeToString(sum[:6])
}

var majorVersion = regexp.MustCompile(`/v\d+$`)

// build makes the folder dir with the programs, at once when all are there.
func (c component) build(ctx context.Context, dir string, log io.Writer) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	bin := filepath.Join(partial, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	source, err := c.download(ctx)
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return err
	}
	// go takes the module's folder in its cache as the main module, with a go.mod of ours.
	if err := errors.Join(os.WriteFile(filepath.Join(partial, "go.mod"), c.released(mod), 0o644), os.WriteFile(filepath.Join(partial, "go.sum"), sum, 0o644)); err != nil {
		return err
	}
	// A quarter of the time is the compiler's garbage collection, and debug information that the linker leaves out.
	words := append([]string{"build", "-C", source, "-modfile", filepath.Join(partial, "go.mod"), "-mod=mod", "-trimpath", "-buildvcs=false",
		"-tags", c.tags, "-gcflags", "all=-dwarf=false", "-ldflags", "-s -w " + c.ldflags, "-o", bin + "/"}, c.packages...)
	cmd := exec.CommandContext(ctx, "go", words...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOGC=400")
	if err := withProgress(cmd, log); err != nil {
		return err
	}
	if err := os.Rename(bin, dir); err != nil {
		return err
	}
	return os.RemoveAll(partial)
}

// download returns the folder of the module's source.
func (c component) download(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", c.module+"@"+c.version)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); err != nil || jsonErr != nil || answer.Dir == "" {
		return "", fmt.Errorf("downloading %s@%s: %w %s", c.module, c.version, errors.Join(err, jsonErr), answer.Error)
	}
	return answer.Dir, nil
}

var (
	replacedByFolder = regexp.MustCompile(`(?m)^(\s*(?:replace )?)(\S+) => \.\.?/\S+$`)
	forbidden        = regexp.MustCompile(`(?m)^.*FORBIDDEN_DEPENDENCY.*$`)
)

// released is a go.mod whose replacements by folders are replacements by the modules released from those folders.
func (c component) released(mod []byte) []byte {
	mod = forbidden.ReplaceAll(mod, nil)
	return replacedByFolder.ReplaceAll(mod, []byte("${1}${2} => ${2} "+c.siblings))
}

// withProgress runs a command and says now and then that it is still at work; its output is in the error if it fails.
func withProgress(cmd *exec.Cmd, log io.Writer) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	begin := time.Now()
	for tick := time.NewTicker(30 * time.Second); ; {
		select {
		case err := <-done:
			tick.Stop()
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, lastLines(output.String(), 30))
			}
			return nil
		case <-tick.C:
			fmt.Fprintf(log, "cluster: %3.0f s\n", time.Since(begin).Seconds())
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// cacheDir is where everything of this package is that outlives a cluster.
func cacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(user, "lvm-csi", "cluster")
	return dir, os.MkdirAll(dir, 0o755)
}
