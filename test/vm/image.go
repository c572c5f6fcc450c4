package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Image is a bootable Debian system in the cache. Its files are never written
// again.
type Image struct {
	Suite string
	dir   string
}

func (i Image) kernel() string { return filepath.Join(i.dir, "vmlinux") }
func (i Image) initrd() string { return filepath.Join(i.dir, "initrd") }
func (i Image) root() string   { return filepath.Join(i.dir, "root.img") }

// Ensure returns the image that s describes and builds it first if it is not
// in the cache. Progress goes to log. An interrupted build leaves nothing that
// would be taken for an image: it is renamed into place when whole.
func (s Spec) Ensure(ctx context.Context, log io.Writer) (Image, error) {
	if err := s.validate(); err != nil {
		return Image{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return Image{}, err
	}
	image := Image{Suite: s.suite(), dir: filepath.Join(cache, s.Name())}
	if exists(image.dir) {
		return image, touch(image.dir)
	}
	unlock, err := lock(ctx, image.dir+".lock", log)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if exists(image.dir) { // built by whoever held the lock
		return image, nil
	}

	partial := image.dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return Image{}, fmt.Errorf("removing an interrupted build: %w", err)
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return Image{}, fmt.Errorf("creating the image's folder: %w", err)
	}
	if err := s.build(ctx, partial, log); err != nil {
		return Image{}, errors.Join(fmt.Errorf("building the %s image: %w", s.suite(), err), os.RemoveAll(partial))
	}
	if err := os.Rename(partial, image.dir); err != nil {
		return Image{}, fmt.Errorf("placing the image: %w", err)
	}
	return image, prune(cache)
}

// keepFor is how long an image that nobody uses is kept: each is 700 MB.
const keepFor = 30 * 24 * time.Hour

// touch notes in a folder's time that it is in use.
func touch(dir string) error {
	now := time.Now()
	return os.Chtimes(dir, now, now)
}

// prune removes images that were not used for long. Locks stay: one may be held.
func prune(cache string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || time.Since(info.ModTime()) < keepFor {
			continue // gone already is fine too
		}
		if err := os.RemoveAll(filepath.Join(cache, entry.Name())); err != nil {
			return fmt.Errorf("removing an old image: %w", err)
		}
	}
	return nil
}

// cacheDir holds the images and the answer of the KVM probe.
func cacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(user, "lvm-csi", "vm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	return dir, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// lock holds an flock(2) on path, which the kernel releases however this
// process ends. Waiting for another process is said once.
func lock(ctx context.Context, path string, log io.Writer) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	fd := int(file.Fd())
	unlock := func() { _ = file.Close() }
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return unlock, nil
	}
	fmt.Fprintf(log, "vm: waiting for another process to finish %s\n", path)
	// flock cannot be cancelled, so on cancellation the waiter is left behind; it
	// gives back what it gets.
	got := make(chan error, 1)
	go func() { got <- flock(fd) }()
	select {
	case err := <-got:
		if err != nil {
			unlock()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		return unlock, nil
	case <-ctx.Done():
		go func() {
			if err := <-got; err != nil {
				return
			}
			unlock()
		}()
		return nil, context.Cause(ctx)
	}
}

func flock(fd int) error {
	for {
		if err := syscall.Flock(fd, syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
