// Package socket makes the Unix sockets that the driver serves on, so that no other process' socket is ever
// removed, and so that there is no moment in which the path leads to none or to one that others may open.
//
// It refuses to know what is said on them.
package socket

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// MaxPath is what fits in sun_path with its final zero (unix(7)), in bytes.
const MaxPath = 107

// CheckPath says what is wrong with the path of a socket, or returns nil. It looks at no file.
func CheckPath(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("socket path %s is longer than %d bytes; choose a shorter one", path, MaxPath)
	}
	return nil
}

// Socket is a listening socket and the file that leads to it.
type Socket struct {
	net.Listener
	path string
	file fs.FileInfo
}

// Listen makes a socket for root alone, in place of a stale one. path is absolute; its folder exists.
// Closing it leaves the file alone: by then it may be that of the next process (see Remove).
func Listen(path string) (*Socket, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the folder of socket %s does not exist; make it or choose another", path)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s exists and is no socket; remove it or choose another path", path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("another process serves on %s; stop it or choose another path", path)
		}
	}
	// Bound under another name and renamed over the stale one: the path never leads to a socket that others may open, and
	// kubelet, which watches for files that come and go, sees one that comes and none that goes.
	temporary := hidden(path)
	_ = os.Remove(temporary)
	listener, err := net.Listen("unix", temporary)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	file, err := os.Lstat(temporary)
	if err := errors.Join(err, os.Chmod(temporary, 0o600), os.Rename(temporary, path)); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return &Socket{Listener: listener, path: path, file: file}, nil
}

// hidden is a name beside path, of its own and hardly longer. kubelet's plugin watcher passes over names that begin with '.'.
func hidden(path string) string {
	base := filepath.Base(path)
	sum := sha256.Sum256([]byte(base))
	name := ".~" + hex.EncodeToString(sum[:4])
	return filepath.Join(filepath.Dir(path), name[:max(2, min(len(name), len(base)))])
}

// Leads tells whether the path still leads to this socket. It is not to be asked after Close: a listening socket
// keeps its inode, whose number may later be another file's.
func (s *Socket) Leads() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(now, s.file)
}

// Remove removes the file if it still leads to this socket. It comes before Close, as Leads does.
func (s *Socket) Remove() error {
	if !s.Leads() {
		return nil
	}
	return os.Remove(s.path)
}
