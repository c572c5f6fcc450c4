package driver

import (
	"context"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

func TestExpand(t *testing.T) {
	for name, tc := range map[string]struct {
		required, limit int64
		want            int64 // of 64 MiB before
	}{
		"larger":                        {128 * mib, 0, 128 * mib},
		"rounded up":                    {64*mib + 1, 0, 68 * mib}, // topolvm 1144: compared by >=
		"as it is":                      {64 * mib, 0, 64 * mib},
		"already larger":                {32 * mib, 0, 64 * mib},
		"already larger within a limit": {32 * mib, 64 * mib, 64 * mib},
		"no size":                       {0, 0, 64 * mib},
		"within a limit":                {100 * mib, 103 * mib, 100 * mib},
		"all that is free":              {4 * gib, 0, 4 * gib},
	} {
		for _, fs := range []string{"ext4", block} {
			t.Run(fs+" "+name, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", fs, 64*mib)
				w.publish(t, id, fs, "a")
				req := expandRequest(id, w.target("a"), tc.required)
				req.CapacityRange.LimitBytes = tc.limit
				for _, when := range []string{"first", "again", "after a restart"} {
					if when == "after a restart" {
						w.restart(t)
					}
					if got := must(t, w.d, (*Driver).NodeExpandVolume, req).GetCapacityBytes(); got != tc.want {
						t.Errorf("%s: answered %d, want %d", when, got, tc.want)
					}
					if got := w.find(id).Size; got != tc.want {
						t.Errorf("%s: the LV has %d, want %d", when, got, tc.want)
					}
					if got := w.mounter.FilesystemSize("vg0", "pvc-1"); fs != block && got != tc.want {
						t.Errorf("%s: the filesystem has %d, want %d", when, got, tc.want)
					}
				}
			})
		}
	}
}

// kubelet expands at the staging path, or for a volume that was not in use at its next mount.
func TestExpandAtTheStagingPath(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "xfs", 300*mib)
	must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.stage(t, id, "xfs"), 512*mib))
	if got := w.mounter.FilesystemSize("vg0", "pvc-1"); got != 512*mib {
		t.Errorf("the filesystem has %d", got)
	}
}

// A pod may have the volume read-only: the filesystem is grown where it is not.
func TestExpandAtAReadOnlyPath(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		w := newWorld(t)
		id := w.create(t, "pvc-1", fs, 300*mib)
		w.stage(t, id, fs)
		if err := w.publishTo(t, id, fs, "a", true, writer); err != nil {
			t.Fatal(err)
		}
		must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 512*mib))
		if got := w.mounter.FilesystemSize("vg0", "pvc-1"); got != 512*mib {
			t.Errorf("the %s filesystem has %d", fs, got)
		}
		w.unstage(t, id) // now there is no other mount of it
		_, err := rpc(t.Context(), w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 600*mib))
		wantCode(t, err, codes.Internal, "read-only")
	}
}

func TestExpandRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		opts            []option
		given           func(w *world)
		required, limit int64 // 0 is 128 MiB, and none
		code            codes.Code
		words           []string
	}{
		"already over the limit": {required: 32 * mib, limit: 60 * mib, code: codes.OutOfRange, words: []string{"limit_bytes"}},
		"no space":               {required: 5 * gib, code: codes.OutOfRange, words: []string{"lower the request", "vg0"}},
		"no space, with a limit": {required: 5 * gib, limit: 6 * gib, code: codes.OutOfRange, words: []string{"vg0", "free"}},
		"into the reserve": {
			opts:     []option{withConfig(func(c *Config) { c.Reserve = map[string]int64{"vg0": 4*gib - 127*mib} })},
			required: 128 * mib, code: codes.OutOfRange, words: []string{"vg0", "free"},
		},
		"in a system VG": {
			given: func(w *world) { w.config.SystemVGs = []string{"vg0"} },
			code:  codes.OutOfRange, words: []string{"root file system", "--reserve"},
		},
		"a PV is missing": {
			given: func(w *world) { w.lvm.SetMissing("vg0", w.lvm.AddPV("vg0", gib), true) },
			code:  codes.Unavailable, words: []string{"missing"},
		},
		"a PV is missing, with a limit": {
			given: func(w *world) { w.lvm.SetMissing("vg0", w.lvm.AddPV("vg0", gib), true) },
			limit: gib, code: codes.Unavailable, words: []string{"missing"},
		},
		"the VG is away": {
			given: func(w *world) { w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true) },
			code:  codes.Unavailable, words: []string{"vg0"},
		},
		"an origin that LVM cannot resize while active": {
			given: func(w *world) { w.lvm.AddSnapshot("vg0", "pvc-1", "backup") },
			code:  codes.Internal, words: []string{"origin"},
		},
	} {
		for _, fs := range []string{"ext4", block} {
			t.Run(fs+" "+name, func(t *testing.T) {
				w := newWorld(t, tc.opts...)
				id := w.create(t, "pvc-1", fs, 64*mib)
				w.publish(t, id, fs, "a")
				if tc.given != nil {
					tc.given(w)
					w.restart(t)
				}
				before := w.state(t)
				req := expandRequest(id, w.target("a"), 128*mib)
				if tc.required != 0 {
					req.CapacityRange.RequiredBytes = tc.required
				}
				req.CapacityRange.LimitBytes = tc.limit
				for range 2 {
					fails(t, w.d, (*Driver).NodeExpandVolume, req, tc.code, tc.words...)
				}
				unchanged(t, w, before)
			})
		}
	}
}

// Whatever becomes of the one command, the retry ends with a larger LV, a larger filesystem, and no hanging writer.
func TestExpandAgainAfterAFault(t *testing.T) {
	for name, hook := range map[string]lvmtest.Hook{
		"the answer is lost":               lost,
		"killed before it began":           killed,
		"lvm failed without a word":        answer(5),
		"killed between its changes":       nil, // below
		"killed with its metadata written": nil,
	} {
		for _, fs := range []string{"ext4", block} {
			for _, restart := range []bool{false, true} {
				t.Run(fs+" "+name, func(t *testing.T) {
					w := newWorld(t)
					id := w.create(t, "pvc-1", fs, 64*mib)
					w.publish(t, id, fs, "a")
					h := hook
					switch name {
					case "killed with its metadata written": // and no table loaded
						h = func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
							if out, err := run(); err != nil || out.Code != 0 {
								return out, err
							}
							w.lvm.Lag("vg0", "pvc-1", 16)
							return lvm.Output{}, lvm.ErrUnknown
						}
					case "killed between its changes": // the device is suspended, with the new table loaded and not live
						h = func(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
							w.lvm.Strand("vg0", "pvc-1")
							return killed(ctx, args, run)
						}
					}
					w.lvm.SetHook(onCommand("lvextend", h))
					req := expandRequest(id, w.target("a"), 128*mib)
					if _, err := rpc(t.Context(), w.d, (*Driver).NodeExpandVolume, req); err == nil {
						t.Fatal("it succeeded")
					}
					w.lvm.SetHook(nil)
					if restart {
						w.restart(t)
					}
					if got := must(t, w.d, (*Driver).NodeExpandVolume, req).GetCapacityBytes(); got != 128*mib {
						t.Errorf("answered %d", got)
					}
					lv := w.find(id)
					if lv.Size != 128*mib || lv.Suspended || lv.InactiveTable {
						t.Errorf("the LV: %+v", lv)
					}
					if got := w.mounter.FilesystemSize("vg0", "pvc-1"); fs != block && got != 128*mib {
						t.Errorf("the filesystem has %d", got)
					}
				})
			}
		}
	}
}

// Who extends an LV to a size that it has already is refused by LVM, with an exit status as any other.
func TestExpandWhatSomebodyExtendedMeanwhile(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.stage(t, id, "ext4")
	w.lvm.SetHook(onCommand("lvextend", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		if out, err := run(); err != nil || out.Code != 0 {
			return out, err
		}
		return run()
	}))
	must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.staging(id), 128*mib))
	if got := w.mounter.FilesystemSize("vg0", "pvc-1"); got != 128*mib {
		t.Errorf("the filesystem has %d", got)
	}
}

// pvmove locks the LVs that it moves: that passes.
func TestExpandWhatIsBeingMoved(t *testing.T) {
	w := newWorld(t)
	w.warm(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.stage(t, id, "ext4")
	w.lvm.SetHook(func(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		if args[0] == "lvextend" {
			return answer(5, "Can't resize locked logical volume vg0/pvc-1.")(ctx, args, run)
		}
		return moving(ctx, args, run)
	})
	req := expandRequest(id, w.staging(id), 128*mib)
	for range 2 {
		fails(t, w.d, (*Driver).NodeExpandVolume, req, codes.Aborted, "pvmove", "ask again")
	}
	w.lvm.SetHook(nil)
	must(t, w.d, (*Driver).NodeExpandVolume, req)
}

// The process died between lvextend and the growing of the filesystem.
func TestExpandGrowsWhatWasOnlyExtended(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.stage(t, id, "ext4")
	if err := w.d.lvm.Extend(t.Context(), "vg0", "pvc-1", 128*mib); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	w.d.Start(t.Context())
	got := w.spent(func() { must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.staging(id), 128*mib)) })
	if diff := cmp.Diff([]string{}, got); diff != "" {
		t.Errorf("lvm commands (-want +got):\n%s", diff)
	}
	if got := w.mounter.FilesystemSize("vg0", "pvc-1"); got != 128*mib {
		t.Errorf("the filesystem has %d", got)
	}
}

// What the driver remembers of an LV is worth nothing once LVM says otherwise.
func TestExpandWhatSomebodyRemoved(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", block, 64*mib)
	if err := w.d.lvm.Remove(t.Context(), "vg0", "pvc-1", w.d.tags.id(id)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		fails(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 128*mib), codes.NotFound)
		fails(t, w.d, (*Driver).NodeStageVolume, &csi.NodeStageVolumeRequest{
			VolumeId: id, StagingTargetPath: w.staging(id), VolumeCapability: capability(block)}, codes.NotFound)
	}
}
