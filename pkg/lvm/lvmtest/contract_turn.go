package lvmtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// turnCases are about changes that wait for each other, here or in another process.
var turnCases = []contractCase{
	{"a report does not wait for a change", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		_, end := s.stuckCreate(vg, "b")
		ctx, cancel := context.WithTimeout(s.ctx, 25*time.Second)
		defer cancel()
		r, err := s.l.Report(ctx, vg)
		if err != nil || len(r.LVs) != 1 {
			s.Errorf("during the change: %+v, %v", r, err)
		}
		s.must(end())
	}},
	{"the first look waits for another process", func(s *suite) {
		vg := s.newVG(VGOptions{})
		unlock := s.Lock(s.T, vg)
		defer unlock()
		commands, looked := s.rec.count(), make(chan error, 1)
		go func() {
			looked <- s.l.Backup(s.ctx, vg)
		}()
		s.rec.wait(commands + 1)
		select {
		case err := <-looked:
			s.Errorf("looked during a change: %v", err)
		case <-time.After(10 * time.Millisecond): // long enough for the fake; a report of lvm takes longer anyway
		}
		unlock()
		s.must(<-looked)
	}},
	{"waiting for a turn ends with the context", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		_, end := s.stuckCreate(vg, "b")
		commands := s.rec.count()
		ctx, cancel := context.WithCancel(s.ctx)
		failed := make(chan error, 1)
		go func() { failed <- s.l.Create(ctx, lvm.NewLV{VG: vg, Name: "c", Size: mib}) }()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, lvm.ErrUnknown) {
			s.Errorf("the change that waited: %v", err)
		}
		if n := s.rec.count() - commands; n != 0 {
			s.Errorf("it sent %d commands", n)
		}
		s.must(end())
		if left := s.names(vg); left != "a b" {
			s.Errorf("there is %s", left)
		}
	}},
	{"a change outlives its context", func(s *suite) {
		vg := s.newVG(VGOptions{})
		s.create(vg, "a", 4*mib)
		cancel, end := s.stuckCreate(vg, "b")
		cancel()
		s.must(end())
		if left := s.names(vg); left != "a b" {
			s.Errorf("there is %s", left)
		}
	}},
	{"many at once", func(s *suite) {
		vg := s.newVG(VGOptions{})
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				name := fmt.Sprintf("a%d", n)
				if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: name, Size: 4 * mib, Tags: []string{tag}}); err != nil {
					s.Error(err)
				}
				if n%2 == 1 {
					if err := s.l.Remove(s.ctx, vg, name, tag); err != nil {
						s.Error(err)
					}
				}
				if _, err := s.l.Report(s.ctx, vg); err != nil {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if left := s.names(vg); left != "a0 a2 a4 a6" {
			s.Errorf("left: %s", left)
		}
	}},
}

// stuckCreate begins to create an LV while another process holds the VG's lock. cancel ends its context; end lets
// it go on and returns its error. A change of the VG has been made before.
func (s *suite) stuckCreate(vg, name string) (cancel func(), end func() error) {
	unlock := s.Lock(s.T, vg)
	s.Cleanup(unlock)
	ctx, cancel := context.WithCancel(s.ctx)
	s.Cleanup(cancel)
	commands, done := s.rec.count(), make(chan error, 1)
	go func() { done <- s.l.Create(ctx, lvm.NewLV{VG: vg, Name: name, Size: mib}) }()
	s.rec.wait(commands + 1)
	return cancel, func() error {
		unlock()
		return <-done
	}
}
