package mounter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

func TestFlights(t *testing.T) {
	var f flights[int]
	var started atomic.Int32
	disk := make(chan struct{})
	hang := func() (int, error) {
		started.Add(1)
		<-disk
		return 7, nil
	}
	ended, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := f.do(ended, "a", hang)
		first <- err
	}()
	for started.Load() == 0 { // until it hangs
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if v, err := f.do(t.Context(), "b", func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Errorf("another key: %d, %v", v, err)
	}
	later := make(chan int)
	go func() {
		v, _ := f.do(t.Context(), "a", hang)
		later <- v
	}()
	close(disk)
	if v := <-later; v != 7 {
		t.Errorf("joined: %d", v)
	}
	if n := started.Load(); n > 2 { // 2 when the first landed before the second came
		t.Errorf("%d calls hang", n)
	}
	if _, err := f.do(ended, "a", hang); !errors.Is(err, context.Canceled) || started.Load() > 2 {
		t.Errorf("an ended context: %v", err)
	}
}
