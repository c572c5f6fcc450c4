package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		fs    string
		given func(t *testing.T, w *world, id string)
	}{
		"block":          {block, func(*testing.T, *world, string) {}},
		"filesystem":     {"ext4", func(*testing.T, *world, string) {}},
		"inactive":       {"ext4", func(_ *testing.T, w *world, id string) { w.lvm.Deactivate(lvOf(id)) }},
		"inactive block": {block, func(_ *testing.T, w *world, id string) { w.lvm.Deactivate(lvOf(id)) }},
		"after a life on the node": {"ext4", func(t *testing.T, w *world, id string) {
			w.publish(t, id, "ext4", "a")
			w.unpublish(t, id, "a")
			w.unstage(t, id)
		}},
		"suspended by an lvm that was killed": {"ext4", func(t *testing.T, w *world, id string) { w.restart(t); w.lvm.Strand(lvOf(id)) }},
		"after a restart":                     {"ext4", func(t *testing.T, w *world, _ string) { w.restart(t) }},
		"after a reboot":                      {"ext4", func(t *testing.T, w *world, _ string) { w.reboot(t) }},
		"never finished": {"ext4", func(t *testing.T, w *world, id string) {
			vg, lv := lvOf(id)
			if err := w.d.lvm.Retag(t.Context(), vg, lv, w.d.tags.state(creating), ""); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, erase := range []string{"zero", "discard", "none"} {
			t.Run(name+" erase "+erase, func(t *testing.T) {
				w := newWorld(t)
				w.create(t, "other", block, 64*mib)
				id := w.create(t, "pvc-1", tc.fs, 64*mib, "erase", erase)
				tc.given(t, w, id)
				for range 2 {
					w.delete(t, id)
					if diff := cmp.Diff([]string{"other"}, w.names("vg0")); diff != "" {
						t.Errorf("volumes left (-want +got):\n%s", diff)
					}
					w.restart(t)
				}
			})
		}
	}
}

// A volume whose disk was moved here from another node is here.
func TestDeleteWhatAnotherNodeMade(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.config.NodeID = "node-2"
	w.restart(t)
	w.delete(t, id)
	if w.find(id) != nil {
		t.Error("it is there")
	}
}

// What must not be deleted stays as it is, and the answer says what to do.
func TestDeleteRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  []option
		given func(t *testing.T, w *world, id string)
		id    string // other than the volume's
		code  codes.Code
		words []string
	}{
		"staged": {
			given: func(t *testing.T, w *world, id string) { w.stage(t, id, "ext4") },
			code:  codes.FailedPrecondition, words: []string{"mounted at", "staging", "unmount"},
		},
		"published": {
			given: func(t *testing.T, w *world, id string) { w.publish(t, id, "ext4", "a") },
			code:  codes.FailedPrecondition, words: []string{"mounted at", "unmount"},
		},
		"published after a forced pod deletion and a restart": {
			given: func(t *testing.T, w *world, id string) {
				w.publish(t, id, "ext4", "a")
				w.unstage(t, id)
				w.restart(t)
			},
			code: codes.FailedPrecondition, words: []string{"mounted at", "pods/a"},
		},
		"open": {
			given: func(_ *testing.T, w *world, id string) { vg, lv := lvOf(id); w.lvm.SetOpen(vg, lv, 1) },
			code:  codes.FailedPrecondition, words: []string{"open", "fuser"},
		},
		"held by what LVM does not see": {
			opts: []option{withFaults(faultyMounter{claim: func() error { return mounter.ErrInUse }})},
			code: codes.FailedPrecondition, words: []string{"held", "fuser"},
		},
		"unreadable": { // nobody holds it: the disk is broken
			given: func(_ *testing.T, w *world, id string) { vg, lv := lvOf(id); w.mounter.SetUnreadable(vg, lv, true) },
			code:  codes.Unavailable, words: []string{"opening", "input/output error"},
		},
		"origin of a thick snapshot": {
			given: func(_ *testing.T, w *world, id string) { vg, lv := lvOf(id); w.lvm.AddSnapshot(vg, lv, "backup") },
			code:  codes.FailedPrecondition, words: []string{"origin", "snapshots", "remove them first"},
		},
		"somebody's": {
			given: func(_ *testing.T, w *world, _ string) { w.lvm.AddForeignLV("vg0", "theirs", 64*mib, "x") },
			id:    "vg0/theirs", code: codes.FailedPrecondition, words: []string{"vg0/theirs", "Retain"},
		},
		"ours by a hand-written ID": {
			id: "vg0/pvc-1", code: codes.FailedPrecondition, words: []string{"vg0/pvc-1", "Retain"},
		},
		"a format of a later release": {
			given: func(t *testing.T, w *world, id string) {
				vg, lv := lvOf(id)
				if err := w.d.lvm.Retag(t.Context(), vg, lv, "lvm-csi.io/v=2", "lvm-csi.io/v=1"); err != nil {
					t.Fatal(err)
				}
			},
			code: codes.FailedPrecondition, words: []string{"does not carry that ID"},
		},
		"its PV is missing": { // its bytes would come back with the disk
			given: func(_ *testing.T, w *world, _ string) {
				w.lvm.AddPV("vg0", gib)
				w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true)
			},
			code: codes.Unavailable, words: []string{"misses a physical volume", "bring its disk back"},
		},
		"another's PV is missing": {
			given: func(_ *testing.T, w *world, _ string) {
				w.lvm.SetMissing("vg0", w.lvm.AddPV("vg0", gib), true)
			},
			code: codes.Unavailable, words: []string{"misses a physical volume"},
		},
		"all PVs are missing": {
			given: func(_ *testing.T, w *world, _ string) { w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true) },
			code:  codes.Unavailable, words: []string{"vg0", "not found"},
		},
		"being moved by pvmove": {
			given: func(_ *testing.T, w *world, _ string) { w.lvm.SetHook(onCommand("fullreport", moving)) },
			code:  codes.Aborted, words: []string{"pvmove", "ask again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // an open device is looked at again after a pause
				w := newWorld(t, tc.opts...)
				w.warm(t)
				id := w.create(t, "pvc-1", "ext4", 64*mib)
				w.lvm.Stain("vg0", "pvc-1", "data")
				if tc.given != nil {
					tc.given(t, w, id)
				}
				if tc.id != "" {
					id = tc.id
				}
				before := w.state(t)
				for range 2 {
					asked := time.Now()
					fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), tc.code, tc.words...)
					if took := time.Since(asked); took > time.Second { // LVM itself takes 5 s
						t.Errorf("it took %s", took)
					}
				}
				if diff := cmp.Diff(before, w.state(t)); diff != "" { // also no change of the metadata
					t.Errorf("the node has changed (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// moving makes a report show all LVs as under pvmove: locked, a capital letter (lvs(8), lv_attr).
func moving(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
	out, err := run()
	for i, r := range out.Report {
		out.Report[i] = replaceAll(r, `"lv_attr":"-wi-`, `"lv_attr":"-wI-`)
	}
	return out, err
}

// udev opens a device for a moment after each change; that is no reason to give up.
func TestDeleteWhatIsOpenForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", block, 64*mib)
		end, err := w.lvm.Open("vg0", "pvc-1", false)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(removePause*3/2, end)
		w.delete(t, id)
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// udev opens a device when the eraser has closed it: the removal is repeated, and the erasing, which may have taken hours, is not.
func TestDeleteErasesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", block, 64*mib)
		removals := 0
		w.lvm.SetHook(onCommand("lvremove", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			if removals++; removals < removeTries {
				w.lvm.SetOpen("vg0", "pvc-1", 1)
				defer w.lvm.SetOpen("vg0", "pvc-1", 0)
			}
			return run()
		}))
		w.delete(t, id)
		erased := 0
		for _, call := range w.mounter.Calls() {
			if strings.HasPrefix(call, "Erase") {
				erased++
			}
		}
		if removals != removeTries || erased != 1 {
			t.Errorf("erased %d times for %d removals", erased, removals)
		}
	})
}

// lvremove -S succeeds and removes nothing when nothing is selected: that is no deletion.
func TestSuccessIsNoProofOfRemoval(t *testing.T) {
	for name, erase := range map[string]string{"erased": "zero", "not erased": "none"} {
		for _, inactive := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					id := w.create(t, "pvc-1", block, 64*mib, "erase", erase)
					if inactive {
						w.lvm.Deactivate("vg0", "pvc-1")
					}
					w.lvm.SetHook(onCommand("lvremove", answer(0)))
					fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.FailedPrecondition, "opened, or became the origin")
					w.lvm.SetHook(nil)
					w.delete(t, id)
					if w.find(id) != nil {
						t.Error("it is there")
					}
				})
			})
		}
	}
}

// topolvm 889, 892: lvremove of an open LV exits with 5, as for one that is not there. metal-stack: LvExists was false on
// any error, so deletion "succeeded". Here every failing command is a failing call.
func TestDeleteFailsWithLVM(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix string
		hook   lvmtest.Hook
		code   codes.Code
	}{
		"report fails":               {"fullreport", answer(5, "Error reading device /dev/sdb at 0 length 512."), codes.Unavailable},
		"report fails without words": {"fullreport", answer(5), codes.Internal},
		"report is lost":             {"fullreport", killed, codes.Unavailable},
		"lvm cannot be started": {"fullreport", func(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
			return lvm.Output{}, context.DeadlineExceeded
		}, codes.DeadlineExceeded},
		"marking is lost":          {"lvchange", killed, codes.Unavailable},
		"removal fails":            {"lvremove", answer(5), codes.Internal},
		"removal is killed":        {"lvremove", killed, codes.Unavailable},
		"removal's answer is lost": {"lvremove", lost, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.warm(t)
			id := w.create(t, "pvc-1", block, 64*mib)
			w.lvm.SetHook(onCommand(tc.prefix, tc.hook))
			fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), tc.code, "vg0/pvc-1")
			w.lvm.SetHook(nil)
			w.delete(t, id)
			if got := w.names("vg0"); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// A device that cannot be read is no reason to leave its bytes to the next tenant.
func TestDeleteFailsWithItsDevice(t *testing.T) {
	w := newWorld(t, withFaults(faultyMounter{erase: func() error { return mounter.ErrSuspended }}))
	id := w.create(t, "pvc-1", block, 64*mib)
	for range 2 {
		fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.Unavailable, "erasing")
	}
	if w.find(id) == nil {
		t.Error("it was removed with its bytes readable")
	}
}

// A VG that is exported, or another host's, cannot be changed from here until somebody says so.
func TestVGThatIsNotThisHostsNow(t *testing.T) {
	for name, tc := range map[string]struct {
		set   func(w *world, away bool)
		words []string
	}{
		"exported":       {func(w *world, away bool) { w.lvm.SetExported("vg0", away) }, []string{"vg0", "exported", "vgimport"}},
		"another host's": {func(w *world, away bool) { w.lvm.SetSystemID("vg0", map[bool]string{true: "other"}[away]) }, []string{"vg0", "system ID", "lvmsystemid"}},
	} {
		for _, erase := range []string{"zero", "none"} {
			t.Run(name+" erase "+erase, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", "ext4", 64*mib, "erase", erase)
				w.reboot(t)
				tc.set(w, true)
				for range 2 {
					fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.Unavailable, tc.words...)
					fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.Unavailable, tc.words...)
				}
				tc.set(w, false)
				w.stage(t, id, "ext4")
				w.unstage(t, id)
				w.delete(t, id)
			})
		}
	}
}
