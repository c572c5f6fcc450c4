package socket

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketDir is a folder whose name is short enough for sockets in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listen makes a listener that is closed at the end of the test.
func listen(t *testing.T, path string) *Socket {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dials(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func TestListen(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	listen(t, path)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 || !dials(path) {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("beside the socket there is %v", left)
	}
}

// kill -9 leaves a socket file on which nobody listens.
func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	listen(t, path)
	if !dials(path) {
		t.Error("nobody listens")
	}
}

// The old pod may end after the new one began: it must not take the new one's socket along.
func TestClosingLeavesTheNextDriversSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	old := listen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	listen(t, path)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if !dials(path) {
		t.Error("the new driver's socket is gone")
	}
}

func TestListenRefuses(t *testing.T) {
	dir := socketDir(t)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(dir, "live")
	listen(t, live)
	for name, tc := range map[string]struct {
		path  string
		words []string
	}{
		"too long":         {filepath.Join(dir, strings.Repeat("s", 107)), []string{"longer than 107 bytes", "choose a shorter"}},
		"no folder":        {filepath.Join(dir, "none", "csi.sock"), []string{"folder", "does not exist", "make it"}},
		"folder is a file": {filepath.Join(dir, "file", "csi.sock"), []string{"folder", "does not exist"}},
		"not a socket":     {filepath.Join(dir, "file"), []string{"is no socket", "remove it"}},
		"a folder":         {dir, []string{"is no socket"}},
		"another driver's": {live, []string{"another process serves", "stop it"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(tc.path)
			if err == nil {
				l.Close()
				t.Fatal("it listens")
			}
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the message says nothing of %q: %v", word, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tc.path) {
				t.Errorf("not one line with the path: %q", err)
			}
		})
	}
	if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(data) != "x" || !dials(live) {
		t.Error("what was there has changed")
	}
	if l, err := Listen(filepath.Join(dir, strings.Repeat("s", 106-len(dir)))); err != nil {
		t.Errorf("107 bytes: %v", err)
	} else {
		l.Close()
	}
}

// kubelet's plugin watcher passes over names that begin with '.'.
func TestHiddenName(t *testing.T) {
	for path, want := range map[string]string{
		"/run/csi.sock":                 "/run/.~",
		"/p/lvm-csi.io-reg.sock":        "/p/.~",
		"/p/x":                          "/p/.~",
		"/p/" + strings.Repeat("n", 60): "/p/.~",
	} {
		got := hidden(path)
		if !strings.HasPrefix(got, want) || len(got) > max(len(path), len(want)) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if hidden("/p/a.io-reg.sock") == hidden("/p/b.io-reg.sock") {
		t.Error("two sockets of a folder share a temporary name")
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(socketDir(t), "csi.sock")
	first := listen(t, path)
	if !first.Leads() {
		t.Error("a new socket's path does not lead to it")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if first.Leads() || first.Remove() != nil {
		t.Error("the path is gone and leads to the socket")
	}
	second := listen(t, path)
	if err := first.Remove(); err != nil || first.Leads() {
		t.Errorf("another's socket: %v", err)
	}
	if !second.Leads() || !dials(path) {
		t.Error("the other's socket was removed")
	}
	for range 2 {
		if err := second.Remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("its own socket is there")
	}
}
