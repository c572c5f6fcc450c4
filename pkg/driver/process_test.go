package driver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// process is one run of the driver on a node. Each lvm command and each call of the mounter is a step of it, and
// something can happen at any step: see fate. What every step does is held against rules that no moment excuses.
type process struct {
	w    *world
	d    *Driver
	fate fate

	mu     sync.Mutex
	record bool // the ways of each step
	steps  []step
	faults []string
	claims map[*claim]bool
	cancel context.CancelFunc // of the call under way
	calls  sync.WaitGroup
	dead   chan struct{} // closed when it is killed
	buried chan struct{} // closed at the end of the test: what still hangs in it gets errors
}

// step is one thing that a process does to its node, or learns of it.
type step struct {
	name    string // "Format", "lvcreate"
	lvm     bool
	changes bool
	ways    []way // all that there are
}

// way is how far a step comes when something happens at it.
type way struct {
	name string
	do   func(act func())
}

var (
	before = way{"before", func(func()) {}}
	after  = way{"after", func(act func()) { act() }}
)

// fate is what happens to a process, and when. The zero value is to live.
type fate struct {
	step   int // counted from 1
	name   string
	way    string
	happen func(*process) error // with an error, that is what the step answers
	reboot bool                 // of the node, afterwards
}

// String names a fate in the name of a test.
func (f fate) String() string {
	text := "answered"
	if f.step != 0 {
		text = fmt.Sprintf("%d %s %s", f.step, f.way, f.name)
	}
	if f.reboot {
		text += " and reboot"
	}
	return text
}

var errDead = errors.New("the process is dead")

// newProcess starts a driver on the node. At the end of the test it is dead, and must have kept the rules.
func newProcess(t *testing.T, w *world, f fate) *process {
	p := &process{w: w, fate: f, claims: map[*claim]bool{}, dead: make(chan struct{}), buried: make(chan struct{}), cancel: func() {}}
	p.d = New(w.config, lvm.New(p), p)
	t.Cleanup(func() {
		close(p.buried)
		p.cancel()
		p.calls.Wait()
		if !p.d.Close() {
			t.Error("the driver did not stop")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, f := range p.faults {
			t.Error(f)
		}
	})
	return p
}

// send sends a call and waits for its answer, or for the death of the process.
func (p *process) send(call func(context.Context, *Driver) error) (answered bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	done := make(chan error, 1)
	p.calls.Go(func() { done <- call(ctx, p.d) })
	select {
	case err := <-done:
		return true, err
	case <-p.dead:
		return false, nil
	}
}

// die kills the process. The kernel closes what it had open; its goroutines do nothing more.
func (p *process) die() error {
	p.mu.Lock()
	for c := range p.claims {
		_ = c.Closer.Close()
	}
	close(p.dead)
	p.mu.Unlock()
	<-p.buried
	return errDead
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// take does a step, unless something happens to it. ways are those beside before and after.
func (p *process) take(s step, act func(), ways func() []way) error {
	p.mu.Lock()
	if p.isDead() {
		p.mu.Unlock()
		<-p.buried
		return errDead
	}
	here := len(p.steps)+1 == p.fate.step
	if here || p.record {
		s.ways = []way{before}
		if s.changes {
			s.ways = append(s.ways, after)
		}
		if ways != nil {
			s.ways = append(s.ways, ways()...)
		}
	}
	p.steps = append(p.steps, s)
	p.mu.Unlock()
	if !here {
		act()
		return nil
	}
	i := slices.IndexFunc(s.ways, func(w way) bool { return w.name == p.fate.way })
	if p.fate.name != s.name || i < 0 {
		panic(fmt.Sprintf("step %d is %s now and was %s: the test cannot count on it", p.fate.step, s.name, p.fate.name))
	}
	done := false
	s.ways[i].do(func() { act(); done = true })
	if err := p.fate.happen(p); err != nil {
		return err
	}
	if !done {
		act()
	}
	return nil
}

// reached reports whether what was to happen has happened.
func (p *process) reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.steps) >= p.fate.step
}

func (p *process) rule(kept bool, format string, args ...any) {
	if !kept {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, fmt.Sprintf(format, args...))
	}
}

// Run implements lvm.Runner.
func (p *process) Run(ctx context.Context, args ...string) (out lvm.Output, err error) {
	s := step{name: args[0], lvm: true, changes: args[0] != "fullreport"}
	for _, flag := range []string{"-a", "--addtag", "--deltag", "--refresh"} {
		if args[0] == "lvchange" && slices.Contains(args, flag) {
			s.name += " " + flag
		}
	}
	e := p.take(s, func() {
		if s.changes && s.name != "dmsetup" && s.name != "lvchange --refresh" {
			for _, lv := range []string{"victim", "neighbour"} {
				dev, _ := p.w.lvm.Device("vg0", lv)
				p.rule(!dev.Suspended && !dev.InactiveTable, "%s although %s is as a killed lvm left it", s.name, lv)
			}
		}
		if s.name == "lvchange --refresh" {
			vg, lv, _ := strings.Cut(args[len(args)-1], "/")
			dev, _ := p.w.lvm.Device(vg, lv)
			p.rule(!dev.InactiveTable, "%s makes the table live that a killed lvm left on %s", s.name, lv)
		}
		p.rule(!s.changes || ctx.Done() == nil, "%s can be ended half way", s.name)
		out, err = p.w.lvm.Run(ctx, args...)
	}, func() []way { return p.lvmWays(args) })
	if e != nil {
		return lvm.Output{}, e
	}
	return out, err
}

var selectedName = regexp.MustCompile(`lv_name="([^"]*)"`)

// lvmWays are the states, beside none and all of its work, in which an lvm command that is killed leaves the LV: each is what a kill
// between two of its device-mapper ioctls and metadata writes was seen to leave, as far as the fake can show it.
func (p *process) lvmWays(args []string) []way {
	f := p.w.lvm
	vg, lv, _ := strings.Cut(args[len(args)-1], "/")
	switch args[0] {
	case "lvcreate":
		lv = args[slices.Index(args, "-n")+1]
	case "lvremove":
		lv = selectedName.FindStringSubmatch(args[slices.Index(args, "-S")+1])[1]
	}
	dev, active := f.Device(vg, lv)
	then := func(name string, leave func(vg, lv string)) way {
		return way{name, func(act func()) {
			act()
			if _, active := f.Device(vg, lv); active {
				leave(vg, lv)
			}
		}}
	}
	only := func(name string, leave func(vg, lv string)) way {
		return way{name, func(func()) { leave(vg, lv) }}
	}
	switch {
	case args[0] == "lvcreate" && p.w.find("vg0/"+lv) == nil:
		return []way{then("without a device after", f.Deactivate), then("with a table after", f.LoadTable)}
	case args[0] == "lvremove" && active && dev.Opens == 0:
		return []way{only("without a device before", f.Deactivate)}
	case args[0] == "lvextend" && active:
		return []way{only("with a table before", f.LoadTable), only("suspended before", f.Strand), then("suspended after", f.Strand)}
	case args[0] == "lvchange" && slices.Contains(args, "-a") && !active:
		return []way{then("with a table after", f.LoadTable), then("suspended after", f.Strand)}
	}
	return nil
}
