package mounter

import (
	"context"
	"sync"
)

// flights runs calls into the kernel that may hang for as long as a disk does, and that nothing can end. Whoever waits
// leaves when its ctx ends; the call stays, and those who come later with the same key join it instead of
// hanging another thread. The zero value is ready.
type flights[T any] struct {
	mu    sync.Mutex
	calls map[string]*flight[T]
}

type flight[T any] struct {
	landed chan struct{}
	value  T
	err    error
}

func (f *flights[T]) do(ctx context.Context, key string, call func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	fl := f.join(key, call)
	select {
	case <-fl.landed:
		return fl.value, fl.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (f *flights[T]) join(key string, call func() (T, error)) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.calls[key]; fl != nil {
		return fl
	}
	fl := &flight[T]{landed: make(chan struct{})}
	if f.calls == nil {
		f.calls = map[string]*flight[T]{}
	}
	f.calls[key] = fl
	go func() {
		fl.value, fl.err = call()
		f.mu.Lock()
		delete(f.calls, key)
		f.mu.Unlock()
		close(fl.landed)
	}()
	return fl
}
