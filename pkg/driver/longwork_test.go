package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// Zeroing a disk or making a huge filesystem takes longer than an RPC may: the RPC that starts it waits until its own deadline, a
// second one meanwhile is Aborted at once, and the retry finds it done.

// within calls a method with a deadline and returns how long it took, and its error.
func within[Q, R any](t *testing.T, d *Driver, method func(*Driver, context.Context, Q) (R, error), req Q, deadline time.Duration) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	asked := time.Now()
	_, err := rpc(ctx, d, method, req)
	return time.Since(asked), err
}

func TestLongFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, release := w.mounter.Block("Format", "vg0", "pvc-1")
		defer release()
		req := createRequest("pvc-1", "ext4", 64*mib)
		took, err := within(t, w.d, (*Driver).CreateVolume, req, 10*time.Second)
		wantCode(t, err, codes.DeadlineExceeded, "goes on", "ask again")
		if took != 10*time.Second {
			t.Errorf("it waited %s", took)
		}
		for range 3 { // harvester 11747: retries piled up
			took, err = within(t, w.d, (*Driver).CreateVolume, req, 10*time.Second)
			wantCode(t, err, codes.Aborted, "under way", "ask again")
			if took != 0 {
				t.Errorf("the second call waited %s", took)
			}
		}
		_, err = within(t, w.d, (*Driver).DeleteVolume, deleteRequest("vg0/pvc-1:35971be6"), 10*time.Second)
		wantCode(t, err, codes.Aborted, "under way")
		w.create(t, "pvc-2", "ext4", 64*mib) // others go on
		release()
		synctest.Wait()
		calls := len(w.mounter.Calls())
		w.create(t, "pvc-1", "ext4", 64*mib)
		for _, call := range w.mounter.Calls()[calls:] {
			if call == "Format /dev/mapper/vg0-pvc--1 ext4" {
				t.Error("it was formatted again")
			}
		}
	})
}

// mkfs refuses the options when nobody waits any more: nothing is left, and the next call hears of it.
func TestLongFormatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, release := w.mounter.Block("Format", "vg0", "pvc-1")
		defer release()
		req := createRequest("pvc-1", "ext4", 64*mib, "mkfsOptions", "--bad")
		_, err := within(t, w.d, (*Driver).CreateVolume, req, time.Second)
		wantCode(t, err, codes.DeadlineExceeded)
		release()
		synctest.Wait()
		if got := w.names("vg0"); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
		fails(t, w.d, (*Driver).CreateVolume, req, codes.InvalidArgument, "mkfsOptions")
	})
}

func TestLongErase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", "ext4", 64*mib)
		_, release := w.mounter.Block("Erase", "vg0", "pvc-1")
		defer release()
		took, err := within(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), 10*time.Second)
		wantCode(t, err, codes.DeadlineExceeded, "goes on", "ask again")
		if took != 10*time.Second {
			t.Errorf("it waited %s", took)
		}
		for range 3 {
			took, err = within(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), 10*time.Second)
			wantCode(t, err, codes.Aborted, "under way")
			if took != 0 {
				t.Errorf("the second call waited %s", took)
			}
		}
		fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest(id, "ext4"), codes.Aborted)
		release()
		synctest.Wait()
		if w.find(id) != nil {
			t.Error("it is there")
		}
		w.delete(t, id)
	})
}

// An lvm that hangs is never killed (Azure/local-csi-driver 163, 524), nor is a second one started (topolvm 1163).
func TestHungLVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.warm(t)
		release := make(chan struct{})
		w.lvm.SetHook(onCommand("lvcreate", func(ctx context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			select {
			case <-release:
			case <-ctx.Done():
				t.Error("lvcreate was given up")
			}
			return run()
		}))
		got := w.spent(func() {
			req := createRequest("pvc-1", block, 64*mib)
			_, err := within(t, w.d, (*Driver).CreateVolume, req, time.Second)
			wantCode(t, err, codes.DeadlineExceeded)
			took, err := within(t, w.d, (*Driver).CreateVolume, req, time.Second)
			wantCode(t, err, codes.Aborted)
			if took != 0 {
				t.Errorf("the second call waited %s", took)
			}
			for range 3 { // another volume waits for its turn, and sends nothing when it has waited in vain
				_, err = within(t, w.d, (*Driver).CreateVolume, createRequest("pvc-2", block, 64*mib), time.Second)
				wantCode(t, err, codes.DeadlineExceeded)
				time.Sleep(time.Millisecond)
			}
		})
		if len(got) != 1 {
			t.Errorf("while one lvcreate hung: %q", got)
		}
		close(release)
		synctest.Wait()
		w.lvm.SetHook(nil)
		if got := w.names("vg0"); len(got) != 1 || got[0] != "pvc-1" {
			t.Errorf("volumes: %q", got)
		}
		w.create(t, "pvc-1", block, 64*mib)
		w.create(t, "pvc-2", block, 64*mib)
	})
}

// The answer of the one command is lost: what it did is found at the retry, and nothing is made twice.
func TestCreateAgainAfterAFault(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix string
		hook   lvmtest.Hook
		code   codes.Code
	}{
		"lvcreate's answer is lost":    {"lvcreate", lost, codes.Unavailable},
		"lvcreate was killed":          {"lvcreate", killed, codes.Unavailable},
		"committing's answer is lost":  {"lvchange", lost, codes.Unavailable},
		"committing was killed":        {"lvchange", killed, codes.Unavailable},
		"committing failed":            {"lvchange", answer(5), codes.Unavailable},
		"the first look was killed":    {"fullreport", killed, codes.Unavailable},
		"the first look was not begun": {"fullreport", refused, codes.Unavailable},
	} {
		for _, fs := range []string{"ext4", block} {
			for _, restart := range []bool{false, true} {
				t.Run(fs+" "+name, func(t *testing.T) {
					w := newWorld(t)
					w.lvm.SetHook(onCommand(tc.prefix, tc.hook))
					resp, err := rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-1", fs, 64*mib))
					if err == nil && (fs != block || tc.prefix != "lvchange") {
						t.Errorf("it succeeded: %v", resp)
					} else if err != nil {
						wantCode(t, err, tc.code, "pvc-1")
					}
					w.lvm.SetHook(nil)
					if restart {
						w.restart(t)
					}
					id := w.create(t, "pvc-1", fs, 64*mib)
					if got := w.names("vg0"); len(got) != 1 {
						t.Errorf("volumes: %q", got)
					}
					w.publish(t, id, fs, "a")
				})
			}
		}
	}
}

// refused is an lvm that could not be started at all.
func refused(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
	return lvm.Output{}, errors.New("no lvm here")
}

// A stop lets mkfs come to its end, within bounds: what takes longer is finished after the next start.
func TestStopDuringFormat(t *testing.T) {
	for name, needs := range map[string]time.Duration{"it ends in time": drainGrace - time.Second, "it takes too long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				entered, release := w.mounter.Block("Format", "vg0", "pvc-1")
				defer release()
				answered := make(chan error)
				go func() {
					_, err := rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest("pvc-1", "ext4", 64*mib))
					answered <- err
				}()
				<-entered
				stopped := time.Now()
				time.AfterFunc(needs, release)
				go w.d.Close()
				err := <-answered
				took := time.Since(stopped)
				w.restart(t)
				if needs < drainGrace {
					if err != nil || took != needs {
						t.Errorf("after %s: %v", took, err)
					}
				} else {
					switch status.Code(err) {
					case codes.Canceled, codes.Unavailable:
					default:
						t.Errorf("got %v, and the volume is half made", err)
					}
					if took != drainGrace {
						t.Errorf("the stop took %s", took)
					}
					fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest("vg0/pvc-1:35971be6", "ext4"), codes.Unavailable, "still being created")
				}
				id := w.create(t, "pvc-1", "ext4", 64*mib)
				w.stage(t, id, "ext4")
			})
		})
	}
}

// While one call for a volume is under way every other is Aborted, but stats.
func TestOneCallAtATimePerVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(t, "pvc-1", "ext4", 64*mib)
		w.publish(t, id, "ext4", "good")
		w.lvm.SetHook(onCommand("lvextend", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			time.Sleep(time.Minute)
			return run()
		}))
		go func() {
			if _, err := rpc(t.Context(), w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("good"), 128*mib)); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		before := w.state(t)
		for _, c := range callsByID {
			code := codes.Aborted
			switch c.name {
			case "NodeGetVolumeStats", "ControllerGetVolume", "ValidateVolumeCapabilities": // they change nothing
				code = codes.OK
			}
			wantCode(t, c.call(t.Context(), w, id), code)
		}
		must(t, w.d, (*Driver).NodeGetCapabilities, &csi.NodeGetCapabilitiesRequest{})
		unchanged(t, w, before)
		time.Sleep(time.Minute)
	})
}
