package vm

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed guest/init.sh
var initScript string

// share fills the folder that the guest's init reads. Files are copied, not
// linked: the guest is root and may write to what it is given.
func share(dir, word string, cfg Config) error {
	job := filepath.Join(dir, "job")
	if err := os.MkdirAll(job, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"init.sh": initScript, "word": word + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, path := range append([]string{cfg.Program}, cfg.Files...) {
		if err := copyInto(job, path); err != nil {
			return fmt.Errorf("copying %s for the guest: %w", path, err)
		}
	}
	program := filepath.Base(cfg.Program)
	// It was named to be run, so being a script without the x bit is no error.
	if err := os.Chmod(filepath.Join(job, program), 0o755); err != nil {
		return err
	}
	return shareList(dir, "argv", append([]string{"./" + program}, cfg.Args...))
}

// shareList writes a list whose items may hold anything but NUL.
func shareList(dir, name string, items []string) error {
	var text strings.Builder
	for _, item := range items {
		if strings.Contains(item, "\x00") {
			return fmt.Errorf("%s: NUL in %q", name, item)
		}
		text.WriteString(item + "\x00")
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644)
}

// copyInto copies a file or a folder, under its own name, into dir.
func copyInto(dir, path string) error {
	path, err := filepath.Abs(path) // "." has a name too
	if err != nil {
		return err
	}
	target := filepath.Join(dir, filepath.Base(path))
	if _, err := os.Lstat(target); err == nil {
		return fmt.Errorf("two files named %s", filepath.Base(path))
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(target, os.DirFS(path))
	}
	return copyFile(target, path, info.Mode().Perm())
}

func copyFile(target, path string, mode fs.FileMode) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// makeDisks makes sparse files of the given sizes in bytes.
func makeDisks(dir string, sizes []int64) ([]string, error) {
	var paths []string
	for i, size := range sizes {
		path := filepath.Join(dir, fmt.Sprintf("disk%d.img", i+1))
		file, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
			return nil, fmt.Errorf("making a disk of %d bytes: %w", size, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
