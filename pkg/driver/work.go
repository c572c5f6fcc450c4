package driver

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"
)

// locks are tried, never waited for: a second call for a volume is told at once that the first is under way.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

func (l *locks) try(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] {
		return false
	}
	l.held[key] = true
	return true
}

func (l *locks) release(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}

// work runs fn under the lock of one LV and waits for it until ctx ends. fn goes on after
// that, and keeps the lock: a call that comes meanwhile is Aborted, and one that comes later finds the work done.
func work[T any](ctx context.Context, d *Driver, vg, lv string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	key := vg + "/" + lv
	if !d.locks.try(key) {
		return none, as(errBusy, fmt.Errorf("an operation on %s is under way; it goes on, ask again", key))
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	d.working.Add(1)
	go func() {
		var o outcome
		defer d.working.Done()
		defer func() { done <- o }()
		defer d.locks.release(key)
		defer func() {
			if p := recover(); p != nil {
				o.err = panicked(ctx, p)
			}
		}()
		o.value, o.err = fn(ctx)
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		select {
		case o := <-done: // both at once: the outcome tells more
			return o.value, o.err
		default:
		}
		d.reportLate(ctx, key, func() error { return (<-done).err })
		return none, fmt.Errorf("%s: the operation goes on, ask again: %w", key, ctx.Err())
	}
}

// reportLate logs how work ended that nobody waits for any more.
func (d *Driver) reportLate(ctx context.Context, key string, outcome func() error) {
	go func() {
		if err := outcome(); err != nil {
			klog.FromContext(ctx).Error(err, "The operation failed after its caller had gone", "logicalVolume", key)
		} else {
			klog.FromContext(ctx).Info("The operation succeeded after its caller had gone", "logicalVolume", key)
		}
	}()
}

// panicked turns a panic into an error. What was done is unknown, so the caller must ask again: Unavailable.
func panicked(ctx context.Context, p any) error {
	klog.FromContext(ctx).Error(nil, "Panic in a handler; please report it with this stack", "panic", p, "stack", string(debug.Stack()))
	return as(errUnavailable, fmt.Errorf("the driver had a fault (%v); its log has the stack", p))
}

// detach is for what follows the first change: it no longer ends with the call, only with the process.
func (d *Driver) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return endingWith(context.WithoutCancel(ctx), d.life)
}

// endingWith is ctx as long as other lasts.
func endingWith(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}
