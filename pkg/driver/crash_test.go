package driver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// The driver, the lvm and the tools that it runs can end at any instant, and so can its calls. These tests let that
// happen at every step of every call that changes something. The steps are found by doing each call once undisturbed.

// node is the node of a scenario when the call comes.
func (sc scenario) node(t *testing.T) *world {
	t.Helper()
	w := newNode(t, sc.metadataSize)
	sc.prepare(t, w)
	if sc.rest.LVs == nil {
		*sc.rest = restOf(t, w, w.lvm.Report("vg0"))
	}
	return w
}

// suffer sends the call to one process after another, each with its fate.
func (sc scenario) suffer(t *testing.T, w *world, fates ...fate) {
	t.Helper()
	for _, f := range fates {
		p := newProcess(t, w, f)
		answered, err := p.send(func(ctx context.Context, d *Driver) error { return sc.call(ctx, w, d) })
		switch {
		case f.step == 0 && err != nil:
			t.Fatalf("undisturbed: %v", err)
		case f.step != 0 && answered:
			t.Fatalf("%s was not reached: %v", f, err)
		}
		if f.reboot {
			w.mounter.Reboot()
		}
	}
}

// steps are those of a call to a process that nothing happens to, after others with these fates.
func (sc scenario) steps(t *testing.T, earlier ...fate) []step {
	t.Helper()
	w := sc.node(t)
	sc.suffer(t, w, earlier...)
	p := newProcess(t, w, fate{})
	p.record = true
	if _, err := p.send(func(ctx context.Context, d *Driver) error { return sc.call(ctx, w, d) }); err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	return p.steps
}

// deaths are the ways to be killed in a call, after others with these fates; the last is when the answer is on its way.
func deaths(t *testing.T, sc scenario, earlier ...fate) []fate {
	t.Helper()
	var all []fate
	for i, s := range sc.steps(t, earlier...) {
		for _, w := range s.ways {
			all = append(all, fate{step: i + 1, name: s.name, way: w.name, happen: (*process).die})
		}
	}
	return append(all, fate{})
}

// changed are those of deaths that leave the node in states that differ.
func changed(t *testing.T, sc scenario) []fate { return distinct(deaths(t, sc)) }

func distinct(all []fate) []fate {
	return append(all[:1:1], slices.DeleteFunc(all[1:], func(f fate) bool { return f.way == before.name })...)
}

// again sends the call again, and what kubelet sends before it after a reboot.
func (sc scenario) again(t *testing.T, w *world, rebooted bool) {
	t.Helper()
	if rebooted && sc.remount != nil {
		sc.remount(t, w)
	}
	if err := sc.call(t.Context(), w, w.d); err != nil {
		t.Fatalf("again: %v", err)
	}
	sc.want(t, w)
}

// close checks all but the victim: nothing else has changed, nothing is held, and the next change of the VG can have
// every free extent, finds no leftovers of a killed lvm, and leaves nothing of the victim's to read.
func (sc scenario) close(t *testing.T, w *world, rebooted bool) {
	t.Helper()
	was := *sc.rest
	if rebooted {
		was = was.rebooted()
	}
	vg := w.lvm.Report("vg0")
	if is := restOf(t, w, vg); !reflect.DeepEqual(was, is) {
		t.Errorf("beside the volume, this has changed: %s", cmp.Diff(was, is))
	}
	w.d.locks.mu.Lock()
	if len(w.d.locks.held) > 0 {
		t.Errorf("locked: %v", w.d.locks.held)
	}
	w.d.locks.mu.Unlock()
	if sc.metadataSize != 0 {
		if err := w.d.lvm.Retag(t.Context(), "vg0", "foreign", "", spareTag); err != nil {
			t.Error(err)
		}
	}
	w.create(t, "later", block, vg.FreeExtents*vg.ExtentSize)
	for _, s := range w.lvm.Stains("vg0", "later") {
		if strings.Contains(s, secret) && sc.v.erase != "none" {
			t.Errorf("the next volume can read %q", s)
		}
	}
	for _, lv := range vg.LVs {
		if dev, _ := w.lvm.Device("vg0", lv.Name); dev.Suspended || dev.InactiveTable {
			t.Errorf("a killed lvm's leftover: %s %+v", lv.Name, dev)
		}
	}
}

// each runs a test for each scenario, and within it for each of its fates.
func each(t *testing.T, scenarios []scenario, fates func(*testing.T, scenario) []fate, test func(*testing.T, scenario, fate)) {
	for _, sc := range scenarios {
		sc.rest = new(rest)
		t.Run(sc.name, func(t *testing.T) {
			for _, f := range fates(t, sc) {
				t.Run(f.String(), func(t *testing.T) { test(t, sc, f) })
			}
		})
	}
}

// anywhere is the same happening in each way of each step that which accepts.
func anywhere(happen func(*process) error, which func(step, way) bool) func(*testing.T, scenario) []fate {
	return func(t *testing.T, sc scenario) (all []fate) {
		for i, s := range sc.steps(t) {
			for _, w := range s.ways {
				if which(s, w) {
					all = append(all, fate{step: i + 1, name: s.name, way: w.name, happen: happen})
				}
			}
		}
		return all
	}
}

// killed tests that after these deaths another driver, which gets the same call or a sequel, ends right.
func (sc scenario) killed(t *testing.T, do func(*testing.T, *world), deaths ...fate) {
	w := sc.node(t)
	sc.suffer(t, w, deaths...)
	w.d = newProcess(t, w, fate{}).d
	do(t, w)
	sc.close(t, w, deaths[len(deaths)-1].reboot)
}

// The driver is killed at any step, and with it, or not, the tool that it runs. The next driver gets the same call.
func TestKilled(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, sc scenario, f fate) {
		sc.killed(t, func(t *testing.T, w *world) { sc.again(t, w, false) }, f)
	}
	each(t, slices.Concat(ordinary(), special()), func(t *testing.T, sc scenario) []fate { return deaths(t, sc) }, again)
	each(t, alike(), changed, again)
}

// So it is when the whole node went down.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	each(t, slices.Concat(ordinary(), special()), changed, func(t *testing.T, sc scenario, f fate) {
		f.reboot = true
		sc.killed(t, func(t *testing.T, w *world) { sc.again(t, w, true) }, f)
	})
}

// The driver is killed, and the next one gets another call than the same again.
func TestKilledAndNotCalledAgain(t *testing.T) {
	t.Parallel()
	v := victim{fs: "ext4"}
	each(t, append(ordinary(), deletion(v).inactive(), deletionWithoutMetadata(v), start(v)), changed, func(t *testing.T, sc scenario, f fate) {
		for _, s := range sc.then {
			t.Run(s.name, func(t *testing.T) { sc.killed(t, s.do, f) })
		}
	})
}

// The driver is killed, and the next one too.
func TestKilledTwice(t *testing.T) {
	t.Parallel()
	fs, raw, none := victim{fs: "ext4"}, victim{fs: block}, victim{fs: block, erase: mounter.EraseNone}
	scenarios := []scenario{creation(fs), creation(raw), creation(fs).stranded("neighbour"), deletion(fs), deletion(none), deletion(fs).inactive()}
	each(t, scenarios, changed, func(t *testing.T, sc scenario, first fate) {
		for _, second := range distinct(deaths(t, sc, first)) {
			t.Run(second.String(), func(t *testing.T) {
				sc.killed(t, func(t *testing.T, w *world) { sc.again(t, w, false) }, first, second)
			})
		}
	})
}

// pending reports whether external-provisioner takes an error of CreateVolume to mean that the volume may yet come.
func pending(err error) bool {
	return slices.Contains([]codes.Code{codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted}, status.Code(err))
}

// outlived has a call in a process that outlives what happens to it. The call answers one of the codes allowed.
func (sc scenario) outlived(t *testing.T, f fate, allowed ...codes.Code) *world {
	t.Helper()
	w := sc.node(t)
	p := newProcess(t, w, f)
	w.d = p.d
	_, err := p.send(func(ctx context.Context, d *Driver) error { return sc.call(ctx, w, d) })
	p.d.working.Wait()
	if !p.reached() {
		t.Fatalf("not reached: %v", err)
	}
	if !slices.Contains(allowed, status.Code(err)) {
		t.Errorf("it answers %v", err)
	}
	if strings.HasPrefix(sc.name, "CreateVolume") && !pending(err) && w.find(victimID) != nil {
		t.Errorf("left behind a final answer: %v", err)
	}
	return w
}

// The lvm that the driver runs is killed, and the driver goes on: with the same call again, or with another volume's.
func TestLVMKilled(t *testing.T) {
	t.Parallel()
	killed := func(*process) error { return fmt.Errorf("signal: killed: %w", lvm.ErrUnknown) }
	scenarios := slices.DeleteFunc(slices.Concat(ordinary(), special()), func(sc scenario) bool { return strings.HasPrefix(sc.name, "Start") })
	each(t, scenarios, anywhere(killed, func(s step, _ way) bool { return s.lvm }), func(t *testing.T, sc scenario, f fate) {
		w := sc.outlived(t, f, codes.OK, codes.Unavailable)
		sc.again(t, w, false)
		sc.close(t, w, false)
		if f.way != before.name && f.way != after.name {
			sc.close(t, sc.outlived(t, f, codes.OK, codes.Unavailable), false)
		}
	})
}

// The kernel or a tool fails once.
func TestStepFails(t *testing.T) {
	t.Parallel()
	fails := func(*process) error { return errors.New("input/output error") }
	each(t, slices.Concat(ordinary(), special()), anywhere(fails, func(s step, _ way) bool { return !s.lvm }), func(t *testing.T, sc scenario, f fate) {
		w := sc.outlived(t, f, codes.OK, codes.Internal, codes.Unavailable)
		sc.again(t, w, false)
		sc.close(t, w, false)
	})
}

// beforeIt is for what ends no step: after one is before the next.
func beforeIt(_ step, w way) bool { return w.name == before.name }

// The caller goes away.
func TestCancelled(t *testing.T) {
	t.Parallel()
	leave := func(p *process) error { p.cancel(); return nil }
	each(t, slices.Concat(ordinary(), special()), anywhere(leave, beforeIt), func(t *testing.T, sc scenario, f fate) {
		w := sc.outlived(t, f, codes.OK, codes.Canceled, codes.Unavailable)
		if lv := w.find(victimID); lv != nil && !strings.HasPrefix(sc.name, "Start") && strings.Contains(strings.Join(lv.Tags, " "), "state=") {
			t.Errorf("once begun, the work does not go on without its caller: %q", lv.Tags)
		}
		sc.again(t, w, false)
		sc.close(t, w, false)
	})
}

// The driver is told to stop, and the next one gets the same call.
func TestStopped(t *testing.T) {
	t.Parallel()
	stop := func(p *process) error { p.d.end(); return nil }
	each(t, ordinary(), anywhere(stop, beforeIt), func(t *testing.T, sc scenario, f fate) {
		w := sc.node(t)
		p := newProcess(t, w, f)
		_, err := p.send(func(ctx context.Context, d *Driver) error { return sc.call(ctx, w, d) })
		if code := status.Code(err); code != codes.OK && code != codes.Canceled && code != codes.Unavailable {
			t.Errorf("it answers %v", err)
		}
		if !p.d.Close() {
			t.Error("it did not stop")
		}
		w.d = newProcess(t, w, fate{}).d
		sc.again(t, w, false)
		sc.close(t, w, false)
	})
}
