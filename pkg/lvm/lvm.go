package lvm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
)

// LVM drives the LVM of this node through a Runner. It is safe for concurrent use.
type LVM struct {
	run Runner

	mu  sync.Mutex
	vgs map[string]*vgState
	all shared[[]*VG]
}

// vgState is what LVM keeps of one VG: nothing that LVM does not know too.
type vgState struct {
	queue   chan struct{} // holds one token; whoever has it may change the VG
	checked bool          // under the token: no table is left over from a killed lvm
	changed atomic.Bool   // since its last backup
	reports shared[*VG]
}

// New returns an LVM over run.
func New(run Runner) *LVM { return &LVM{run: run, vgs: map[string]*vgState{}} }

func (l *LVM) vg(name string) *vgState {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.vgs[name]
	if st == nil {
		st = &vgState{queue: make(chan struct{}, 1)}
		l.vgs[name] = st
	}
	return st
}

// Report reads a VG. Callers that wait at the same time share one command, which starts after the
// last of them asked. It takes no lock, so it does not wait behind a change under way.
// Errors: ErrNoVG, ErrUnavailable, ErrUnknown.
func (l *LVM) Report(ctx context.Context, vg string) (*VG, error) {
	return l.vg(vg).reports.get(ctx, func(ctx context.Context) (*VG, error) { return l.report(ctx, vg, "--nolocking") })
}

func (l *LVM) report(ctx context.Context, vg string, options ...string) (*VG, error) {
	if err := checkName(vg); err != nil { // without a name it would be a report of every VG
		return nil, fmt.Errorf("volume group name %q %w", vg, err)
	}
	vgs, err := l.fullReport(ctx, append(options, vg)...)
	switch {
	case err != nil:
		return nil, err
	case len(vgs) != 1:
		return nil, fmt.Errorf("the report of %s holds %d volume groups: %w", vg, len(vgs), ErrUnavailable)
	}
	return vgs[0], nil
}

// Reports reads every VG that this node sees. Unlike Report it hangs as long as any device of
// any VG does: only for callers that can wait.
func (l *LVM) Reports(ctx context.Context) ([]*VG, error) {
	return l.all.get(ctx, func(ctx context.Context) ([]*VG, error) { return l.fullReport(ctx, "--nolocking") })
}

func (l *LVM) fullReport(ctx context.Context, words ...string) ([]*VG, error) {
	args := append(append([]string{"fullreport"}, reportArgs...), words...)
	out, err := l.run.Run(ctx, args...)
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, failure(args[0], out)
	}
	vgs := make([]*VG, 0, len(out.Report))
	for _, raw := range out.Report {
		vg, err := parseVG(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		vgs = append(vgs, vg)
	}
	return vgs, nil
}

// NewLV is an LV to be made.
type NewLV struct {
	VG, Name string
	Size     int64 // bytes; LVM rounds it up to whole extents
	Tags     []string
}

// Create makes a linear LV, wipes the signatures that its extents happen to hold, and leaves it active.
// Errors: ErrExists, ErrNoSpace, ErrNoVG, ErrUnavailable, ErrUnknown. Unless the error is ErrUnknown
// or of no kind, nothing was made.
func (l *LVM) Create(ctx context.Context, lv NewLV) error {
	args := []string{"lvcreate", "-A", "n", "-y", "-W", "y", "-Z", "y", "-n", lv.Name, "-L", sectors(lv.Size)}
	for _, tag := range lv.Tags {
		if err := CheckTag(tag); err != nil {
			return err
		}
		args = append(args, "--addtag", tag)
	}
	if err := errors.Join(CheckVGName(lv.VG), CheckLVName(lv.Name)); err != nil {
		return err
	}
	return l.change(ctx, lv.VG, append(args, lv.VG)...)
}

// maxSize is 2^32 extents of the default 4 MiB. lvextend counts extents in 32 bits without noticing more: asked for
// 2^32+2 extents it makes 2, and succeeds if that is larger than the LV was.
const maxSize = 1 << 54

// Extend grows an LV to size bytes, rounded up to whole extents. It works on inactive LVs, too, and does
// not activate them.
// Errors: ErrNotLarger when it has that size already; ErrNoSpace, ErrUnavailable, ErrNoVG, ErrUnknown.
//
// In a VG with extents smaller than 4 MiB LVM can still miscount an absurd size (see maxSize): callers
// look at the size that the device has afterwards.
func (l *LVM) Extend(ctx context.Context, vg, lv string, size int64) error {
	if size >= maxSize {
		return fmt.Errorf("extending %s/%s to %d bytes: %w", vg, lv, size, ErrNoSpace)
	}
	return l.changeLV(ctx, vg, lv, "lvextend", "-A", "n", "-y", "-L", sectors(size))
}

// Activate makes the device of an LV. Doing it again does nothing. No metadata changes.
// Errors: ErrUnavailable when the LV is on a missing PV; ErrNoVG, ErrUnknown.
func (l *LVM) Activate(ctx context.Context, vg, lv string) error {
	return l.changeLV(ctx, vg, lv, "lvchange", "-A", "n", "-y", "-a", "y")
}

// Refresh makes the kernel's table of an active LV what the metadata says. They differ after an lvm that was killed between the two, and
// nothing else shows it than the size of the device. Errors as Activate.
func (l *LVM) Refresh(ctx context.Context, vg, lv string) error {
	return l.changeLV(ctx, vg, lv, "lvchange", "-A", "n", "-y", "--refresh")
}

// Retag adds one tag to an LV and removes another, in one change of the metadata. Either may be "".
// Errors: ErrNoSpace when the metadata area is full; ErrNoVG, ErrUnknown.
//
// LVM does this also while a PV is missing, and then does not take that PV back when it returns:
// callers look at VG.Partial first.
func (l *LVM) Retag(ctx context.Context, vg, lv, add, remove string) error {
	args := []string{"lvchange", "-A", "n", "-y"}
	for _, tag := range []struct{ flag, value string }{{"--addtag", add}, {"--deltag", remove}} {
		if tag.value == "" {
			continue
		}
		if err := CheckTag(tag.value); err != nil {
			return err
		}
		args = append(args, tag.flag, tag.value)
	}
	return l.changeLV(ctx, vg, lv, args...)
}

// Remove removes an LV if it still carries tag, is not open and is not the origin of thick snapshots (which
// lvremove would take along). LVM succeeds as well when it selected nothing:
// success is no proof of removal. Errors: ErrNoVG, ErrUnknown, or of no kind.
func (l *LVM) Remove(ctx context.Context, vg, lv, tag string) error {
	if err := errors.Join(CheckVGName(vg), CheckLVName(lv), CheckTag(tag)); err != nil {
		return err
	}
	selection := fmt.Sprintf(`lv_name="%s" && lv_tags="%s" && lv_role!="thickorigin" && lv_device_open!=1`, lv, tag)
	return l.change(ctx, vg, "lvremove", "-A", "n", "-y", "-S", selection, vg)
}

// Backup writes the VG's metadata to LVM's backup folder, which the changes above leave out
// (-A n) because LVM would also keep a copy of each state for 30 days. One that fails is due again at BackUpChanged.
func (l *LVM) Backup(ctx context.Context, vg string) error {
	err := l.change(ctx, vg, backup, vg)
	if err != nil {
		l.vg(vg).changed.Store(true)
	}
	return err
}

const backup = "vgcfgbackup"

// BackUpChanged writes a backup of each VG that has been changed since its last one. One VG that hangs keeps no other from it.
func (l *LVM) BackUpChanged(ctx context.Context) error {
	l.mu.Lock()
	vgs := maps.Clone(l.vgs)
	l.mu.Unlock()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for name, st := range vgs {
		if !st.changed.Load() {
			continue
		}
		all.Go(func() {
			if err := l.Backup(ctx, name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// changeLV is change for a command on one LV, which may have a name that CheckLVName refuses: somebody else made it.
func (l *LVM) changeLV(ctx context.Context, vg, lv string, args ...string) error {
	if err := checkName(lv); err != nil { // without a name the command would be about every LV
		return fmt.Errorf("logical volume name %q %w", lv, err)
	}
	return l.change(ctx, vg, append(args, vg+"/"+lv)...)
}

// Repair does what comes before the first change of a VG: it puts right what a killed lvm left. Later it does nothing.
// Errors: ErrNoVG, ErrUnavailable, ErrUnknown.
func (l *LVM) Repair(ctx context.Context, vg string) error {
	st, err := l.turn(ctx, vg)
	if err == nil {
		st.leave()
	}
	return err
}

// change runs one command that changes vg, after all changes before it. It waits for its turn
// as long as ctx lasts; a command once started runs to its end.
func (l *LVM) change(ctx context.Context, vg string, args ...string) error {
	st, err := l.turn(ctx, vg)
	if err != nil {
		return err
	}
	defer st.leave()
	st.changed.Store(args[0] != backup)
	out, err := l.run.Run(context.WithoutCancel(ctx), args...)
	switch {
	case errors.Is(err, ErrUnknown):
		// At once, rather than before the next change: whoever writes to a suspended LV hangs, and so does its unmount.
		st.checked = l.repair(context.WithoutCancel(ctx), vg) == nil
		return err
	case err != nil:
		return err
	case out.Code != 0:
		return failure(args[0], out)
	}
	return nil
}

// turn waits for the VG's turn, and puts right what a killed lvm left before it gives it away for the first time. The caller
// leaves it.
func (l *LVM) turn(ctx context.Context, vg string) (*vgState, error) {
	if err := checkName(vg); err != nil {
		return nil, fmt.Errorf("volume group name %q %w", vg, err)
	}
	st := l.vg(vg)
	if err := st.enter(ctx, vg); err != nil {
		return nil, err
	}
	if !st.checked {
		if err := l.repair(ctx, vg); err != nil {
			st.leave()
			return nil, err
		}
		st.checked = true
	}
	return st, nil
}

// enter waits for the VG's turn. Nothing has been sent to LVM when it fails.
func (st *vgState) enter(ctx context.Context, vg string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for other changes of volume group %s: %w", vg, err)
	}
	select {
	case st.queue <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other changes of volume group %s: %w", vg, ctx.Err())
	}
}

func (st *vgState) leave() { <-st.queue }

// sectors writes a size as LVM takes it: whole sectors, rounded up.
func sectors(n int64) string { return strconv.FormatInt((n+511)/512*512, 10) + "b" }
