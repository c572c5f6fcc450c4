package lvm

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// reportTimeout bounds one report; one that takes longer is killed. killGrace is how long a killed one has to go: one
// that does not waits for a disk that hangs.
const (
	reportTimeout = 30 * time.Second
	killGrace     = 2 * time.Second
)

// shared lets callers share one running report. Whoever asks while one runs gets the next, which starts when
// it ends: an answer is never older than its question. So there is at most one process at a time, however many
// ask; and while one cannot even be killed, whoever asks is told so at once.
type shared[T any] struct {
	mu      sync.Mutex
	running bool
	hung    time.Time // when the report started that cannot be killed; zero when there is none
	next    *flight[T]
}

// flight is one report that one or more callers wait for.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (f *flight[T]) land(value T, err error) {
	f.value, f.err = value, err
	close(f.done)
}

// get waits for a report that started after the call, or for ctx. Errors: read's, ctx's, ErrUnavailable.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	var none T
	s.mu.Lock()
	if !s.hung.IsZero() {
		defer s.mu.Unlock()
		return none, hangs(s.hung)
	}
	if s.next == nil {
		s.next = &flight[T]{done: make(chan struct{})}
	}
	mine := s.next
	if !s.running {
		s.running = true
		go s.fly(context.WithoutCancel(ctx), read)
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func hangs(since time.Time) error {
	return fmt.Errorf("%w: a report begun at %s hangs and cannot be killed; a disk does not answer (see the kernel's log)", ErrUnavailable, since.Format(time.TimeOnly))
}

// fly reads until nobody waits.
func (s *shared[T]) fly(ctx context.Context, read func(context.Context) (T, error)) {
	for {
		s.mu.Lock()
		f := s.next
		s.next = nil
		if f == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.leg(ctx, f, read)
	}
}

// leg is one report. It returns when its process is gone.
func (s *shared[T]) leg(ctx context.Context, f *flight[T], read func(context.Context) (T, error)) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	gone := make(chan struct{})
	var value T
	var err error
	go func() { value, err = read(ctx); close(gone) }()
	select {
	case <-gone:
		f.land(value, err)
		return
	case <-time.After(reportTimeout + killGrace):
	}
	var none T
	s.mu.Lock()
	s.hung = start
	waiting := s.next
	s.next = nil
	s.mu.Unlock()
	f.land(none, hangs(start))
	if waiting != nil {
		waiting.land(none, hangs(start))
	}
	<-gone
	s.mu.Lock()
	s.hung = time.Time{}
	s.mu.Unlock()
}
