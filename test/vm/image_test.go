package vm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	cache := t.TempDir()
	old, young := filepath.Join(cache, "bookworm-1"), filepath.Join(cache, "bookworm-2")
	for _, dir := range []string{old, young} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * keepFor)
	for _, dir := range []string{old, young} {
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := touch(young); err != nil {
		t.Fatal(err)
	}
	if err := prune(cache); err != nil {
		t.Fatal(err)
	}
	if exists(old) || !exists(young) {
		t.Errorf("old image there: %v, image in use there: %v", exists(old), exists(young))
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	var log strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path, &log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second holder: %v, want it to wait until its context ends", err)
	}
	if !strings.Contains(log.String(), "waiting") {
		t.Errorf("the wait is not said: %q", log.String())
	}

	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	again()
}
