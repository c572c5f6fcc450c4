package driver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// free asks for the capacity of the default VG.
func (w *world) free(t *testing.T) int64 {
	t.Helper()
	resp := must(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{})
	if resp.GetMaximumVolumeSize().GetValue() != resp.GetAvailableCapacity() {
		t.Errorf("a linear volume takes any extent, and capacity is %v", resp)
	}
	return resp.GetAvailableCapacity()
}

func withReserve(bytes int64) option {
	return withConfig(func(c *Config) { c.Reserve = map[string]int64{"vg0": bytes} })
}

func withSystemVG() option { return withConfig(func(c *Config) { c.SystemVGs = []string{"vg0"} }) }

// What is reported is granted, to the extent, and no more.
func TestReportedIsGranted(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  []option
		given func(t *testing.T, w *world)
		want  int64
	}{
		"empty":                           {want: 4 * gib},
		"half full":                       {given: func(t *testing.T, w *world) { w.create(t, "other", block, 2*gib) }, want: 2 * gib},
		"two PVs":                         {given: func(_ *testing.T, w *world) { w.lvm.AddPV("vg0", gib) }, want: 5 * gib},
		"a PV that is closed":             {given: func(_ *testing.T, w *world) { w.lvm.SetAllocatable("vg0", w.lvm.AddPV("vg0", gib), false) }, want: 4 * gib},
		"fragments":                       {given: fragments, want: 2 * gib},
		"large extents":                   {opts: []option{withVG("vg0", lvmtest.VGOptions{PVs: []int64{4 * gib}, ExtentSize: 64 * mib})}, want: 4 * gib},
		"a reserve":                       {opts: []option{withReserve(gib)}, want: 3 * gib},
		"a reserve of part extents":       {opts: []option{withReserve(gib + 1)}, want: 3*gib - 4*mib},
		"a reserve and a volume":          {opts: []option{withReserve(gib)}, given: func(t *testing.T, w *world) { w.create(t, "other", block, gib) }, want: 2 * gib},
		"a system VG with a reserve":      {opts: []option{withSystemVG(), withReserve(gib)}, want: 3 * gib},
		"a system VG with a reserve of 0": {opts: []option{withSystemVG(), withReserve(0)}, want: 4 * gib},
		"a system VG":                     {opts: []option{withSystemVG()}, want: 0},
		"a reserve of all":                {opts: []option{withReserve(4 * gib)}, want: 0},
		"a reserve of more than all":      {opts: []option{withReserve(9 * gib)}, want: 0},
		"full":                            {given: func(t *testing.T, w *world) { w.create(t, "other", block, 4*gib) }, want: 0},
		"metadata down to the margin":     {opts: []option{withVG("vg0", lvmtest.VGOptions{PVs: []int64{4 * gib}, MetadataSize: 18 << 10})}, want: 0},
		"partial":                         {given: func(_ *testing.T, w *world) { w.lvm.SetMissing("vg0", w.lvm.AddPV("vg0", gib), true) }, want: 0},
		"exported":                        {opts: []option{withVG("vg0", lvmtest.VGOptions{Exported: true})}, want: 0},
		"another host's":                  {opts: []option{withVG("vg0", lvmtest.VGOptions{SystemID: "other"})}, want: 0},
		"away":                            {given: func(_ *testing.T, w *world) { w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true) }, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.opts...)
			if tc.given != nil {
				tc.given(t, w)
			}
			if got := w.free(t); got != tc.want {
				t.Fatalf("reported %d, want %d", got, tc.want)
			}
			fails(t, w.d, (*Driver).CreateVolume, createRequest("too-large", block, tc.want+1), codes.ResourceExhausted, "vg0")
			if tc.want == 0 {
				return
			}
			id := w.create(t, "all", block, tc.want)
			if got := w.free(t); got != 0 {
				t.Errorf("%d are left", got)
			}
			fails(t, w.d, (*Driver).CreateVolume, createRequest("one-more", block, 1), codes.ResourceExhausted, "vg0")
			if again := w.create(t, "all", block, tc.want); again != id { // it takes no room
				t.Errorf("asked for again it is %s", again)
			}
			w.delete(t, id)
			if got := w.free(t); got != tc.want {
				t.Errorf("%d after deletion", got)
			}
			// Growing takes of the same room.
			id = w.create(t, "grows", block, 4*mib)
			w.publish(t, id, block, "a")
			if tc.want > 4*mib {
				fails(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), tc.want+1), codes.OutOfRange, "vg0")
			}
			must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), tc.want))
		})
	}
}

// fragments leaves every second 64 MiB of vg0 free.
func fragments(t *testing.T, w *world) {
	w.warm(t)
	for n := range 64 {
		w.create(t, fmt.Sprint("v", n), block, 64*mib)
	}
	for n := range 32 {
		w.delete(t, fmt.Sprintf("vg0/v%d:35971be6", 2*n))
	}
}

func TestCapacityResponse(t *testing.T) {
	w := newWorld(t)
	want := &csi.GetCapacityResponse{AvailableCapacity: 4 * gib, MaximumVolumeSize: wrapperspb.Int64(4 * gib), MinimumVolumeSize: wrapperspb.Int64(4 * mib)}
	if diff := cmp.Diff(want, must(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{}), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The StorageClass's raw parameters, as external-provisioner sends them, or a capability for immediate binding.
func TestCapacityForRequests(t *testing.T) {
	node := func(name string) *csi.Topology {
		return &csi.Topology{Segments: map[string]string{"topology.lvm-csi.io/node": name}}
	}
	for name, tc := range map[string]struct {
		opts []option
		req  *csi.GetCapacityRequest
		want int64
	}{
		"raw parameters": {req: &csi.GetCapacityRequest{Parameters: map[string]string{
			"csi.storage.k8s.io/fstype": "xfs", "csi.storage.k8s.io/provisioner-secret-name": "s", "erase": "none", "volumeGroup": "vg1"}}, want: gib},
		"a capability":            {req: &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{capability("xfs")}}, want: 4 * gib},
		"a capability we lack":    {req: &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{capability("vfat")}}, want: 0},
		"many nodes":              {req: &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{capability("", csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}}, want: 0},
		"this node":               {req: &csi.GetCapacityRequest{AccessibleTopology: node("node-1")}, want: 4 * gib},
		"another node":            {req: &csi.GetCapacityRequest{AccessibleTopology: node("node-2")}, want: 0},
		"absent VG":               {req: &csi.GetCapacityRequest{Parameters: map[string]string{"volumeGroup": "vg9"}}, want: 0},
		"no VG and no parameters": {opts: []option{withConfig(func(c *Config) { c.DefaultVG = "" })}, req: &csi.GetCapacityRequest{}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tc.opts, withVG("vg1", lvmtest.VGOptions{}))...)
			if got := must(t, w.d, (*Driver).GetCapacity, tc.req).GetAvailableCapacity(); got != tc.want {
				t.Errorf("reported %d, want %d", got, tc.want)
			}
		})
	}
}

// An error would leave the last figure published: whatever LVM says, it is zero.
func TestCapacityIsZeroWhenLVMFails(t *testing.T) {
	for name, hook := range map[string]lvmtest.Hook{
		"fails":  answer(5, "Error reading device /dev/sdb at 0 length 512."),
		"killed": killed,
		"rubbish": func(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
			return lvm.Output{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lvm.SetHook(hook)
			if got := w.free(t); got != 0 {
				t.Errorf("reported %d", got)
			}
		})
	}
}

// deadDisk makes every command on a VG hang, as in D state, until the test ends.
func (w *world) deadDisk(t *testing.T, vg string) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	w.lvm.SetHook(func(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		if args[len(args)-1] == vg {
			<-end
		}
		return run()
	})
}

// One hung VG must not keep the others' figures from being published, nor their volumes from being made.
func TestHungVGIsZeroAndStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
		w.deadDisk(t, "vg0")
		for range 3 {
			asked := time.Now()
			if got := w.free(t); got != 0 {
				t.Errorf("reported %d", got)
			}
			if took := time.Since(asked); took > capacityTimeout {
				t.Errorf("it took %s", took)
			}
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rpc(ctx, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{}); err != nil || time.Since(asked) > time.Second {
			t.Errorf("a caller that waits a second got %v after %s", err, time.Since(asked))
		}
		asked = time.Now()
		if got := must(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{Parameters: map[string]string{"volumeGroup": "vg1"}}); got.GetAvailableCapacity() != gib {
			t.Errorf("the other VG: %v", got)
		}
		id := w.create(t, "pvc-1", "ext4", 64*mib, "volumeGroup", "vg1")
		w.publish(t, id, "ext4", "a")
		w.unpublish(t, id, "a")
		w.unstage(t, id)
		w.delete(t, id)
		if took := time.Since(asked); took != 0 {
			t.Errorf("the other VG waited %s", took)
		}
	})
}

// Volumes that are made at once must not together take of the reserve what each alone leaves.
func TestReserveHoldsAgainstConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withReserve(3*gib))
		grows := w.create(t, "grows", block, 4*mib)
		w.publish(t, grows, block, "a")
		w.lvm.SetHook(onCommand("lv", func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			time.Sleep(time.Second) // all others come as far as they can
			return run()
		}))
		for n := range 10 {
			go func() {
				if _, err := rpc(t.Context(), w.d, (*Driver).CreateVolume, createRequest(string(rune('a'+n)), block, 256*mib)); err != nil {
					wantCode(t, err, codes.ResourceExhausted)
				}
			}()
		}
		go func() {
			if _, err := rpc(t.Context(), w.d, (*Driver).NodeExpandVolume, expandRequest(grows, w.target("a"), 256*mib)); err != nil {
				wantCode(t, err, codes.OutOfRange)
			}
		}()
		time.Sleep(time.Minute)
		w.lvm.SetHook(nil)
		if free := w.report("vg0").FreeExtents * 4 * mib; free < 3*gib {
			t.Errorf("of a reserve of 3 GiB %d MiB are left", free/mib)
		}
		if got := len(w.names("vg0")); got < 4 {
			t.Errorf("only %d volumes were granted", got)
		}
	})
}
