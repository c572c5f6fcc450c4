package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Image is a container image in a file that containerd can import.
type Image struct {
	Name string // with its tag
	File string // a docker-archive
}

// builder makes images with buildah, from nothing that a registry would have to give.
type builder struct {
	dir string // of buildah's storage and of the images' files
	log io.Writer
}

// Suite of the base image that Dockerfiles begin with.
const baseSuite = "trixie"

// Images builds the images that nodes need: that of this repository's own Dockerfile, the sidecars' and what pods are held by.
// repo is the repository's folder, name the driver's image without its tag; its tag is made of what is in it.
func Images(ctx context.Context, repo, name, version string, pause string, log io.Writer) ([]Image, error) {
	built, err := programs(ctx, log)
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	b := &builder{dir: filepath.Join(cache, "images"), log: log}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, err
	}
	var all []Image
	for image, program := range map[string]string{
		"docker.io/library/pause:1":                                         pause,
		"registry.k8s.io/sig-storage/csi-provisioner:" + provisionerVersion: built["csi-provisioner"],
		"registry.k8s.io/sig-storage/csi-resizer:" + resizerVersion:         built["csi-resizer"],
	} {
		i, err := b.single(ctx, image, program)
		if err != nil {
			return nil, fmt.Errorf("building image %s: %w", image, err)
		}
		all = append(all, i)
	}
	own, err := b.dockerfile(ctx, repo, name, version)
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", name, err)
	}
	all = append([]Image{own}, all...)
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(filepath.Join(b.dir, "built.json"), list, 0o644)
}

// Built are the images of the last call of Images; the driver's is the first.
func Built() ([]Image, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(cache, "images/built.json"))
	if err != nil {
		return nil, err
	}
	var all []Image
	return all, json.Unmarshal(data, &all)
}

// single makes an image of one static program.
func (b *builder) single(ctx context.Context, name, program string) (Image, error) {
	image := b.image(name)
	if newer(image.File, program) {
		return image, nil
	}
	base := filepath.Base(program)
	text := fmt.Sprintf("FROM scratch\nCOPY %s /%s\nENTRYPOINT [\"/%s\"]\n", base, base, base)
	if err := b.bud(ctx, name, text, filepath.Dir(program)); err != nil {
		return Image{}, err
	}
	return image, b.save(ctx, name, image.File)
}

func (b *builder) image(name string) Image {
	return Image{Name: name, File: filepath.Join(b.dir, strings.NewReplacer("/", "_", ":", "_").Replace(name)+".tar")}
}

// newer tells whether file is there and newer than what it was made of.
func newer(file, source string) bool {
	f, err := os.Stat(file)
	if err != nil {
		return false
	}
	s, err := os.Stat(source)
	return err == nil && f.ModTime().After(s.ModTime())
}

// from finds the images that a Dockerfile begins with, but for its own stages.
var from = regexp.MustCompile(`(?m)^FROM (?:--\S+ )*(\S+)`)

// dockerfile builds deploy/Dockerfile, with base images made of Debian's packages and of this machine's Go.
func (b *builder) dockerfile(ctx context.Context, repo, name, version string) (Image, error) {
	path := filepath.Join(repo, "deploy/Dockerfile")
	text, err := os.ReadFile(path)
	if err != nil {
		return Image{}, err
	}
	debian, golang := "", ""
	for _, match := range from.FindAllStringSubmatch(string(text), -1) {
		switch base := match[1]; {
		case strings.HasPrefix(base, "debian:"):
			debian = canonical(base)
		case strings.HasPrefix(base, "golang:"):
			golang = base
		}
	}
	if debian == "" || golang == "" {
		return Image{}, fmt.Errorf("%s is not made from an image of Debian and one of Go", path)
	}
	if err := errors.Join(b.debian(ctx, debian), b.golang(ctx, golang, debian)); err != nil {
		return Image{}, fmt.Errorf("making %s and %s: %w", debian, golang, err)
	}
	goproxy, err := goEnv(ctx, "GOPROXY")
	if err != nil {
		return Image{}, err
	}
	modules, err := goEnv(ctx, "GOMODCACHE")
	if err != nil {
		return Image{}, err
	}
	cached, err := goEnv(ctx, "GOCACHE")
	if err != nil {
		return Image{}, err
	}
	// The base image made here knows no certificate authorities: what is compiled in it is there before.
	if out, err := exec.CommandContext(ctx, "go", "-C", repo, "mod", "download").CombinedOutput(); err != nil {
		return Image{}, fmt.Errorf("go mod download: %w\n%s", err, lastLines(string(out), 10))
	}
	fmt.Fprintf(b.log, "cluster: building %s from deploy/Dockerfile\n", name)
	id := filepath.Join(b.dir, "id")
	if err := b.buildah(ctx, "bud", "--isolation", "chroot", "--pull-never", "--layers", "--timestamp", "0", "--iidfile", id, "-f", path,
		"--build-arg", "VERSION="+version, "--build-arg", "GOPROXY="+goproxy, "-v", modules+":/go/pkg/mod", "-v", cached+":/root/.cache/go-build", repo); err != nil {
		return Image{}, err
	}
	digest, err := os.ReadFile(id)
	if err != nil {
		return Image{}, err
	}
	short := strings.TrimPrefix(strings.TrimSpace(string(digest)), "sha256:")[:12]
	image := b.image(name + ":" + short)
	if newer(image.File, path) {
		return image, nil
	}
	old, err := filepath.Glob(b.image(name + ":*").File)
	if err != nil {
		return Image{}, err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return Image{}, err
		}
	}
	return image, errors.Join(b.buildah(ctx, "tag", strings.TrimSpace(string(digest)), image.Name), b.save(ctx, image.Name, image.File))
}

// debian makes the base image of Debian that has the given name.
func (b *builder) debian(ctx context.Context, name string) error {
	if b.has(ctx, name) {
		return nil
	}
	fmt.Fprintf(b.log, "cluster: making the base image %s, once\n", name)
	dir, err := os.MkdirTemp(b.dir, "base-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--variant=minbase", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", baseSuite, filepath.Join(dir, "root.tar"))
	if err := withProgress(cmd, b.log); err != nil {
		return err
	}
	return b.bud(ctx, name, "FROM scratch\nADD root.tar /\nCMD [\"bash\"]\n", dir)
}

// golang makes an image with this machine's Go, from one of Debian.
func (b *builder) golang(ctx context.Context, name, base string) error {
	if b.has(ctx, name) {
		return nil
	}
	root, err := goEnv(ctx, "GOROOT")
	if err != nil {
		return err
	}
	text := "FROM " + base + "\n"
	for _, folder := range []string{"bin", "lib", "pkg", "src"} {
		text += fmt.Sprintf("COPY %s /usr/local/go/%s\n", folder, folder)
	}
	return b.bud(ctx, name, text+"COPY go.env VERSION /usr/local/go/\nENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local\n", root)
}

// has tells whether buildah has an image, which is named as Docker does.
func (b *builder) has(ctx context.Context, name string) bool {
	return b.command(ctx, "inspect", "--type", "image", canonical(name)).Run() == nil
}

func canonical(name string) string {
	if !strings.Contains(name, "/") {
		return "docker.io/library/" + name
	}
	return name
}

// bud builds an image from the text of a Dockerfile.
func (b *builder) bud(ctx context.Context, name, text, folder string) error {
	file, err := os.CreateTemp(b.dir, "Dockerfile-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return b.buildah(ctx, "bud", "--isolation", "chroot", "--pull-never", "-t", canonical(name), "-f", file.Name(), folder)
}

// save writes an image to a file.
func (b *builder) save(ctx context.Context, name, file string) error {
	_ = os.Remove(file) // buildah does not replace one
	partial := file + ".partial"
	_ = os.Remove(partial)
	if err := b.buildah(ctx, "push", "--quiet", name, "docker-archive:"+partial+":"+name); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

func (b *builder) buildah(ctx context.Context, words ...string) error {
	var output bytes.Buffer
	cmd := b.command(ctx, words...)
	cmd.Stdout, cmd.Stderr = &output, &output
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("buildah %s: %w\n%s", words[0], err, lastLines(output.String(), 40))
	}
	if took := time.Since(begin); took > 20*time.Second {
		fmt.Fprintf(b.log, "cluster: %3.0f s\n", took.Seconds())
	}
	return nil
}

func (b *builder) command(ctx context.Context, words ...string) *exec.Cmd {
	// It leaves a mount behind, for which the cache could not be removed: in a namespace of its own that goes with it.
	all := slices.Concat([]string{"--mount", "buildah", "--root", filepath.Join(b.dir, "layers"), "--runroot", filepath.Join(b.dir, "run")}, words)
	return exec.CommandContext(ctx, "unshare", all...)
}

func goEnv(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}

// Load imports images on a node that lacks them: those that were built after its cluster came up. They come from a folder that the node shares with this
// host: through its network, or by containerd's transfer service, it takes four times as long on an emulated node.
func (c *Cluster) Load(ctx context.Context, n NodeInfo, images []Image) error {
	have, err := n.Run(ctx, nil, "ctr", "-n", "k8s.io", "images", "ls", "-q")
	if err != nil {
		return err
	}
	for _, image := range images {
		if slices.Contains(strings.Fields(have), image.Name) {
			continue
		}
		const name = "image.tar"
		shared := filepath.Join(n.shared(c.dir), name)
		if err := copyFile(image.File, shared); err != nil {
			return err
		}
		_, err = n.Run(ctx, nil, "ctr", "-n", "k8s.io", "images", "import", "--local", "--digests=false", "/out/"+name)
		if err := errors.Join(err, os.Remove(shared)); err != nil {
			return fmt.Errorf("loading %s: %w", image.Name, err)
		}
	}
	return nil
}
