//go:build vm

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tool makes a folder with a program that stands before another of the same name: script runs with $REAL as the real one.
func tool(t *testing.T, dir, name, script string) {
	t.Helper()
	real, err := Run("sh", "-c", "command -v "+name)
	if err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/bash\nREAL=" + real + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// countAndKill is the script of a tool that kills the driver at the n-th tool it starts: n is in the file at, and when
// says whether before or after the tool does its work.
const countAndKill = `
cd "$(dirname "$0")"
echo x >>count
n=$(wc -l <count); at=$(cat at); when=$(cat when)
if [ "$n" = "$at" ] && [ "$when" = before ]; then kill -9 $PPID; exit 1; fi
(exec -a "$(basename "$0")" "$REAL" "$@"); rc=$?
if [ "$n" = "$at" ] && [ "$when" = after ]; then kill -9 $PPID; fi
exit $rc`

// TestKillDriver kills the driver before and after each program that it starts in CreateVolume and DeleteVolume, and calls again.
func TestKillDriver(t *testing.T) {
	h := newHost(t, []int64{300 * mib})
	dir := t.TempDir()
	for _, name := range []string{"lvm", "mkfs.ext4"} {
		tool(t, dir, name, countAndKill)
	}
	before := h.available(t)
	interrupted := 0
	for _, when := range []string{"before", "after"} {
		for _, call := range []string{"create", "delete"} {
			for at := 1; ; at++ {
				name := fmt.Sprintf("pvc-%s-%s-%d", call, when, at)
				var v *Volume
				if call == "delete" {
					v = h.create(t, name, "ext4", 32*mib, nil)
				}
				if err := h.Stop(); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "at"), "0")
				write(t, filepath.Join(dir, "when"), when)
				if err := h.Start(dir); err != nil {
					t.Fatal(err)
				}
				settled(t, filepath.Join(dir, "count"))
				write(t, filepath.Join(dir, "count"), "")
				write(t, filepath.Join(dir, "at"), fmt.Sprint(at))
				var err error
				if call == "create" {
					v, err = h.Create(t.Context(), name, "ext4", 32*mib, nil)
				} else {
					err = v.Delete(t.Context())
				}
				killed := err != nil
				write(t, filepath.Join(dir, "at"), "0") // a stop starts tools too
				if killed {
					interrupted++
					if exit := h.Wait(); !strings.Contains(fmt.Sprint(exit), "killed") {
						t.Fatalf("%s: the driver was to be killed: %v; the call: %v", name, exit, err)
					}
				} else if err := h.Stop(); err != nil {
					t.Fatal(err)
				}
				if err := h.Start(""); err != nil {
					t.Fatal(err)
				}
				if call == "create" {
					retried := h.create(t, name, "ext4", 32*mib, nil)
					lvs, err := h.vg.LVs("lv_tags")
					if err != nil || len(lvs) != 1 || strings.Contains(lvs[retried.lv()]["lv_tags"], "state=") {
						t.Errorf("%s: %v (%v)", name, lvs, err)
					}
					h.mount(t, retried)
					if err := retried.Unmount(t.Context()); err != nil {
						t.Error(err)
					}
					v = retried
				} else {
					v = h.Volume(v.ID, name, "ext4", 0)
				}
				if err := again(func() error { return v.Delete(t.Context()) }); err != nil { // the driver may be at it by itself
					t.Errorf("%s: deleting: %v", name, err)
				}
				if got := h.available(t); got != before {
					t.Fatalf("%s: %d bytes available, %d before", name, got, before)
				}
				if !killed {
					break
				}
			}
		}
	}
	t.Logf("the driver was killed %d times", interrupted)
	if interrupted < 10 {
		t.Errorf("the driver was killed only %d times: it no longer runs its tools from PATH?", interrupted)
	}
}

// settled waits until a driver that has just started runs no more tools, so that those of the call are counted alone.
func settled(t *testing.T, count string) {
	t.Helper()
	const quiet = 700 * time.Millisecond
	var last int64
	for since := time.Now(); time.Since(since) < quiet; time.Sleep(50 * time.Millisecond) {
		if info, err := os.Stat(count); err == nil && info.Size() != last {
			last, since = info.Size(), time.Now()
		}
	}
}

// killLVM is the script of a tool that kills lvm at its n-th device-mapper ioctl, once: n is in the file at.
const killLVM = `
cd "$(dirname "$0")"
at=$(cat at)
case "$1" in lvcreate|lvextend|lvremove) ;; *) at=0 ;; esac
if [ "$at" = 0 ]; then exec -a lvm "$REAL" "$@"; fi
echo 0 >at
exec strace -o trace -f -P /dev/mapper/control -e trace=ioctl -e inject=ioctl:signal=KILL:when=$at -- "$REAL" "$@"`

// TestKillLVM kills lvm itself at every few device-mapper ioctls of create, extend and remove, while volumes of the VG are written, and calls
// again: nothing stays suspended, no writer hangs, and every device maps its own extents only.
func TestKillLVM(t *testing.T) {
	h := newHost(t, []int64{1200 * mib, 1200 * mib})
	dir := t.TempDir()
	tool(t, dir, "lvm", killLVM)
	write(t, filepath.Join(dir, "at"), "0")
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(dir); err != nil {
		t.Fatal(err)
	}
	v := h.create(t, "pvc-written", "ext4", 64*mib, nil)
	h.mount(t, v)
	w := newWriter(filepath.Join(v.Target(), "file"))
	defer w.stop()
	size := v.Size
	kills := map[string]int{}
	for at := 2; at <= 10; at++ { // the first asks for the version of device-mapper
		for _, call := range []string{"create", "extend", "remove"} {
			name := fmt.Sprintf("pvc-%s-%d", call, at)
			var other *Volume
			if call == "remove" {
				other = h.create(t, name, Block, 16*mib, map[string]string{"erase": "none"})
			}
			do := func() error { return other.Delete(t.Context()) }
			switch call {
			case "create":
				do = func() (err error) { other, err = h.Create(t.Context(), name, Block, 16*mib, nil); return err }
			case "extend":
				size += 4 * mib
				do = func() error { return v.Expand(t.Context(), size) }
			}
			write(t, filepath.Join(dir, "at"), fmt.Sprint(at))
			first := do()
			if left, _ := os.ReadFile(filepath.Join(dir, "at")); strings.TrimSpace(string(left)) != "0" {
				t.Fatalf("%s: no lvm was traced: %v", name, first)
			}
			if trace, _ := os.ReadFile(filepath.Join(dir, "trace")); strings.Contains(string(trace), "killed by SIGKILL") {
				kills[call]++
			}
			write(t, filepath.Join(dir, "at"), "0")
			for try := 0; ; try++ {
				err := do()
				if err == nil {
					break
				}
				if try == 10 {
					t.Fatalf("%s, killed at ioctl %d (%v): still fails: %v", name, at, first, err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if call == "create" {
				if err := other.Delete(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := h.vg.CheckTables(); err != nil {
				t.Fatalf("%s, killed at ioctl %d (%v): %v", name, at, first, err)
			}
			if err := w.moves(); err != nil {
				t.Fatalf("%s, killed at ioctl %d: %v", name, at, err)
			}
		}
	}
	t.Logf("lvm was killed: %v", kills)
	if kills["create"]+kills["extend"]+kills["remove"] < 25 {
		t.Errorf("lvm was killed only %v times", kills)
	}
}

// writer writes and syncs a file without end.
type writer struct {
	count  atomic.Int64
	failed atomic.Value
	stop   context.CancelFunc
}

func newWriter(path string) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{}
	done := make(chan struct{})
	w.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			file, err := os.Create(path)
			if err == nil {
				_, err = file.WriteString(strings.Repeat("x", 64<<10))
				if e := file.Sync(); err == nil {
					err = e
				}
				file.Close()
			}
			if err != nil {
				w.failed.Store(err)
				return
			}
			w.count.Add(1)
		}
	}()
	return w
}

// moves waits until the writer has written once more.
func (w *writer) moves() error {
	from := w.count.Load()
	for range 100 {
		if err, _ := w.failed.Load().(error); err != nil {
			return err
		}
		if w.count.Load() > from {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the writer hangs")
}
