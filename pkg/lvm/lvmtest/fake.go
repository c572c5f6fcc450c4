// Package lvmtest is LVM for tests: Fake, a stateful lvm.Runner with volume
// groups of its own, and Contract, one suite of what pkg/lvm promises that runs
// on the fake in every go test and on real LVM in a VM.
//
// It knows lvm's command lines, messages and exit codes, as pkg/lvm uses them
// and as real LVM 2.03 was seen to answer. It refuses to know what callers make
// of them.
package lvmtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// Fake is an lvm.Runner over volume groups that exist in memory only. Its commands
// parse the arguments that pkg/lvm sends, as strictly as lvm does, and answer with
// lvm's JSON. It is safe for concurrent use.
type Fake struct {
	mu         sync.Mutex // guards all below; never held while a hook runs
	vgs        map[string]*vg
	locks      map[string]*semaphore.Weighted // LVM's own lock of each VG name; whoever has it all has it alone
	changing   map[string]bool                // VGs with a change under way
	commands   []string
	hook       Hook
	unkillable bool
	ids        int // numbers what needs a new name
	minors     int
	clock      int64
	violations []string
}

// Hook runs in place of each command. It calls run to have the command done, or
// does not; it may block; and its answer is the command's. While the hook of a change
// runs, LVM's lock of that VG is held. For a killed lvm return lvm.ErrUnknown
// without or after run; for one killed half way call Strand before.
type Hook func(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error)

// New returns a node without volume groups.
func New() *Fake {
	return &Fake{vgs: map[string]*vg{}, locks: map[string]*semaphore.Weighted{}, changing: map[string]bool{}, clock: 1700000000}
}

// SetHook makes h run around each later command; nil ends that.
func (f *Fake) SetHook(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

// Commands lists the command lines so far, each joined by spaces, in the order they were started.
func (f *Fake) Commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.commands)
}

// SetUnkillable makes commands that a hook holds outlive their ctx, as processes do that wait for a dead disk (D state).
func (f *Fake) SetUnkillable(unkillable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unkillable = unkillable
}

// Run implements lvm.Runner. When ctx ends the command is killed.
func (f *Fake) Run(ctx context.Context, args ...string) (lvm.Output, error) {
	if err := ctx.Err(); err != nil {
		return lvm.Output{}, err
	}
	f.mu.Lock()
	f.commands = append(f.commands, strings.Join(args, " "))
	hook, unkillable := f.hook, f.unkillable
	f.mu.Unlock()
	if hook == nil {
		hook = func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) { return run() }
	}
	if ctx.Done() == nil || unkillable {
		return f.locked(ctx, args, hook)
	}
	type answer struct {
		out lvm.Output
		err error
	}
	done := make(chan answer, 1)
	go func() {
		out, err := f.locked(ctx, args, hook)
		done <- answer{out, err}
	}()
	select {
	case a := <-done:
		return a.out, a.err
	case <-ctx.Done():
		return lvm.Output{}, fmt.Errorf("%s: %w: %w", args[0], lvm.ErrUnknown, ctx.Err())
	}
}

// locked runs a command under the locks that LVM would take: a change has its VG alone, a report shares it with
// other reports, and a report with --nolocking takes none.
func (f *Fake) locked(ctx context.Context, args []string, hook Hook) (lvm.Output, error) {
	cmd, fail := parse(args)
	if fail != nil {
		return hook(ctx, args, func() (lvm.Output, error) { return *fail, nil })
	}
	name := cmd.vg
	switch {
	case cmd.changes():
		defer f.beginChange(name, args)()
		if cmd.name != "dmsetup" {
			defer f.lock(name, whole)()
		}
	case !cmd.has("--nolocking") && name != "":
		defer f.lock(name, 1)()
	}
	return hook(ctx, args, func() (lvm.Output, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.execute(cmd), nil
	})
}

// whole is all of a lock; a report takes 1 of it.
const whole = 1 << 30

// lock takes a part of LVM's lock of a VG. Like lvm itself it waits for as long as it takes. A semaphore rather than a mutex: synctest's
// clock does not stand still for whoever waits for one.
func (f *Fake) lock(vg string, part int64) (unlock func()) {
	f.mu.Lock()
	if f.locks[vg] == nil {
		f.locks[vg] = semaphore.NewWeighted(whole)
	}
	l := f.locks[vg]
	f.mu.Unlock()
	_ = l.Acquire(context.Background(), part) // fails only when its context ends
	return func() { l.Release(part) }
}

// LockVG takes LVM's lock of a VG as a change by another process does, until unlock is called.
func (f *Fake) LockVG(vg string) (unlock func()) { return sync.OnceFunc(f.lock(vg, whole)) }

// beginChange notes a change of a VG, and a violation when one is under way: pkg/lvm sends one at a time.
func (f *Fake) beginChange(vg string, args []string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changing[vg] {
		f.violations = append(f.violations, "during another change of its volume group: "+strings.Join(args, " "))
	}
	f.changing[vg] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.changing, vg)
	}
}

// Check says what is wrong: a change that was sent during another one, or an extent that
// two LVs have.
func (f *Fake) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, v := range f.violations {
		errs = append(errs, errors.New(v))
	}
	for _, v := range f.vgs {
		errs = append(errs, v.check()...)
	}
	return errors.Join(errs...)
}
