package lvm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each read answers with its number as sequence number.
type slowReads struct {
	started int
	release chan struct{}
}

func (r *slowReads) read(ctx context.Context) (*VG, error) {
	r.started++
	n := r.started
	select {
	case <-r.release:
		return &VG{Seqno: int64(n)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestSharedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReads{release: make(chan struct{})}
		var s shared[*VG]
		var wg sync.WaitGroup
		ask := func(want int64) {
			wg.Go(func() {
				vg, err := s.get(t.Context(), r.read)
				if err != nil || vg.Seqno != want {
					t.Errorf("%+v, %v; want report %d", vg, err, want)
				}
			})
		}
		ask(1)
		synctest.Wait() // the first is being read: it may be older than later questions
		for range 50 {
			ask(2)
		}
		synctest.Wait()
		if r.started != 1 {
			t.Errorf("%d reports at once", r.started)
		}
		r.release <- struct{}{}
		synctest.Wait()
		ask(3)
		synctest.Wait()
		close(r.release)
		wg.Wait()
		if r.started != 3 {
			t.Errorf("%d reports for 52 callers", r.started)
		}
		synctest.Wait()
		ask(4) // after a rest
		wg.Wait()
	})
}

func TestSharedReportIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReads{release: make(chan struct{})}
		var s shared[*VG]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := s.get(ctx, r.read); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(r.release) // the report of the one who left does no harm
		if vg, err := s.get(t.Context(), r.read); err != nil || vg.Seqno != 2 {
			t.Errorf("%+v, %v", vg, err)
		}
	})
}

func TestSharedReportThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReads{release: make(chan struct{})}
		var s shared[*VG]
		start := time.Now()
		if _, err := s.get(t.Context(), r.read); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != reportTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(r.release)
		if _, err := s.get(t.Context(), r.read); err != nil {
			t.Error(err)
		}
	})
}

// TestSharedReportThatCannotBeKilled: while a process waits for a dead disk, nobody starts another, and whoever asks is told at once.
func TestSharedReportThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, back := 0, make(chan struct{})
		read := func(context.Context) (*VG, error) { started++; <-back; return &VG{Seqno: int64(started)}, nil }
		var s shared[*VG]
		var wg sync.WaitGroup
		for range 3 { // one that is read, two that wait for the next
			wg.Go(func() {
				if _, err := s.get(t.Context(), read); !errors.Is(err, ErrUnavailable) {
					t.Errorf("%v, want ErrUnavailable", err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		start := time.Now()
		for range 10 {
			if _, err := s.get(t.Context(), read); !errors.Is(err, ErrUnavailable) || time.Since(start) > 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		if started != 1 {
			t.Errorf("%d reports were started", started)
		}
		close(back)
		synctest.Wait()
		if vg, err := s.get(t.Context(), read); err != nil || vg.Seqno != 2 {
			t.Errorf("when the disk is back: %+v, %v", vg, err)
		}
	})
}
