package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

func (w *world) ready(t *testing.T) bool {
	t.Helper()
	if !must(t, w.d, (*Driver).Probe, &csi.ProbeRequest{}).GetReady().GetValue() {
		t.Error("the provisioner would wait, with the last capacity published")
	}
	return w.d.Ready() == nil
}

// Broken LVM means not ready and still serving: unmounts must go on.
func TestNotReadyUntilLVMAnswers(t *testing.T) {
	for name, hook := range map[string]lvmtest.Hook{
		"it fails":             answer(5, "Error reading device /dev/sda at 0 length 512."),
		"it cannot be started": refused,
		"it hangs":             hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				id := w.create(t, "pvc-1", "ext4", 64*mib)
				w.publish(t, id, "ext4", "a")
				w.restart(t)
				w.lvm.SetHook(hook)
				ended := make(chan struct{})
				go func() { w.d.Start(t.Context()); close(ended) }()
				time.Sleep(2 * time.Minute)
				if w.ready(t) {
					t.Error("ready without LVM")
				}
				w.unpublish(t, id, "a")
				w.unstage(t, id)
				w.lvm.SetHook(nil)
				<-ended
				if !w.ready(t) {
					t.Error("not ready with LVM")
				}
			})
		})
	}
}

func TestReadyWithoutTheDefaultVG(t *testing.T) {
	for name, vg := range map[string]string{"absent": "vg9", "none named": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withConfig(func(c *Config) { c.DefaultVG = vg }))
			if w.ready(t) {
				t.Error("ready before the start")
			}
			w.d.Start(t.Context())
			if !w.ready(t) {
				t.Error("not ready")
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lvm.SetHook(refused)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.d.Start(ctx)
		if ctx.Err() == nil || w.ready(t) {
			t.Error("it gave up, or is ready")
		}
	})
}

// A call that comes while Start looks must not be overruled by what Start saw before.
func TestStartDoesNotOverruleACall(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", block, 64*mib)
	w.restart(t)
	seen, err := w.d.look(t.Context(), "vg0")
	if err != nil {
		t.Fatal(err)
	}
	w.delete(t, id)
	w.d.takeUp(t.Context(), seen[0], w.d.remember(seen[0]))
	if w.d.known.uuid(id) != "" {
		t.Error("a deleted volume counts as known")
	}
	fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, block), codes.NotFound)
}

// Close waits for an lvm command, within bounds.
func TestCloseWaitsForCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.warm(t)
		took := 30 * time.Second
		w.lvm.SetHook(onCommand("lvcreate", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			time.Sleep(took)
			return run()
		}))
		go func() { _, _ = rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-1", block, 64*mib)) }()
		synctest.Wait()
		began := time.Now()
		if !w.d.Close() || time.Since(began) != 30*time.Second {
			t.Errorf("it waited %s for 30 s of work", time.Since(began))
		}
		w.d = w.newDriver()
		took = 10 * time.Minute
		go func() { _, _ = rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-2", block, 64*mib)) }()
		synctest.Wait()
		began = time.Now()
		if w.d.Close() || time.Since(began) != stopGrace {
			t.Errorf("it waited %s for what hangs", time.Since(began))
		}
		time.Sleep(took)
		w.d = w.newDriver()
	})
}

// Volumes are in other VGs than the default, too: what was interrupted there is taken up, and mounting them asks LVM nothing.
func TestStartLooksAtEachVGThatMatters(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"with active LVs": func(*Config) {},
		"with a reserve":  func(c *Config) { c.Reserve = map[string]int64{"vg1": gib} },
		"without default": func(c *Config) { c.DefaultVG = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withVG("vg1", lvmtest.VGOptions{PVs: []int64{4 * gib}}), withConfig(edit))
			doomed := w.create(t, "pvc-1", block, 64*mib, "volumeGroup", "vg1")
			kept := w.create(t, "pvc-2", "ext4", 64*mib, "volumeGroup", "vg1")
			if err := w.d.lvm.Retag(t.Context(), "vg1", "pvc-1", w.d.tags.state(deleting), ""); err != nil {
				t.Fatal(err)
			}
			w.restart(t)
			if name == "with active LVs" {
				w.lvm.Strand("vg1", "pvc-2")
			} else {
				w.mounter.Reboot()
			}
			w.d.Start(t.Context())
			if w.find(doomed) != nil {
				t.Error("what was being deleted is there")
			}
			if w.find(kept).Suspended {
				t.Error("the other one is still suspended")
			}
			for _, c := range w.spent(func() { w.publish(t, kept, "ext4", "a") }) {
				if strings.HasPrefix(c, "fullreport") {
					t.Errorf("mounting cost %q", c)
				}
			}
		})
	}
}

// A VG that is not the driver's is none of its business: an LV there may be suspended for a purpose.
func TestStartLeavesOtherVGsAlone(t *testing.T) {
	w := newWorld(t, withVG("theirs", lvmtest.VGOptions{}))
	w.lvm.AddForeignLV("theirs", "root", 64*mib)
	w.lvm.SetSuspended("theirs", "root", true)
	got := w.spent(func() { w.d.Start(t.Context()) })
	if diff := cmp.Diff([]string{report, "fullreport --nolocking theirs"}, got); diff != "" {
		t.Errorf("lvm commands (-want +got):\n%s", diff)
	}
	if dev, _ := w.lvm.Device("theirs", "root"); !dev.Suspended {
		t.Error("it was resumed")
	}
}

// A VG whose disk hangs keeps no other from being looked at, whichever of them it is; ready is who has the default VG.
func TestStartBesideAVGThatHangs(t *testing.T) {
	for _, hangs := range []string{"vg0", "vg1"} {
		for _, command := range []string{"fullreport", "vgcfgbackup"} {
			t.Run(hangs+" "+command, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
					ids := map[string]string{"vg0": w.create(t, "pvc-0", block, 64*mib), "vg1": w.create(t, "pvc-1", block, 64*mib, "volumeGroup", "vg1")}
					for vg, id := range ids {
						_, lv := lvOf(id)
						if err := w.d.lvm.Retag(t.Context(), vg, lv, w.d.tags.state(deleting), ""); err != nil {
							t.Fatal(err)
						}
					}
					w.restart(t)
					release := make(chan struct{})
					w.lvm.SetHook(func(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
						if args[0] == command && args[len(args)-1] == hangs {
							select {
							case <-release:
							case <-ctx.Done():
								return lvm.Output{}, lvm.ErrUnknown
							}
						}
						return run()
					})
					ended := make(chan struct{})
					go func() { w.d.Start(t.Context()); close(ended) }()
					time.Sleep(2 * time.Minute)
					for vg, id := range ids {
						if there := w.find(id) != nil; there != (vg == hangs) {
							t.Errorf("while %s hangs, what is being deleted in %s is there: %t", hangs, vg, there)
						}
					}
					if got, want := w.ready(t), hangs != "vg0" || command != "fullreport"; got != want {
						t.Errorf("ready: %t", got)
					}
					close(release)
					<-ended
					if !w.ready(t) || w.find(ids[hangs]) != nil {
						t.Error("when it is back, not all is done")
					}
				})
			})
		}
	}
}

// A call that has the volume in that moment, to be refused, does not end the deletion that is taken up.
func TestDeletionGoesOnAfterABusyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", block, 64*mib)
		if err := w.d.lvm.Retag(t.Context(), "vg0", "pvc-1", w.d.tags.state(deleting), ""); err != nil {
			t.Fatal(err)
		}
		w.restart(t)
		go func() {
			_, _ = work(t.Context(), w.d, "vg0", "pvc-1", func(context.Context) (none struct{}, err error) {
				time.Sleep(3 * time.Second)
				return none, nil
			})
		}()
		synctest.Wait()
		w.d.Start(t.Context())
		if w.find(id) != nil {
			t.Error("the volume is there")
		}
	})
}
