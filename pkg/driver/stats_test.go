package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestStats(t *testing.T) {
	const size = 512 * mib
	used := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: size - size/16, Used: size / 64, Available: size - size/16 - size/64}
	for fs, want := range map[string][]*csi.VolumeUsage{
		"ext4":  {used, {Unit: csi.VolumeUsage_INODES, Total: size / 16384, Used: 11, Available: size/16384 - 11}},
		"xfs":   {used, {Unit: csi.VolumeUsage_INODES, Total: size / 16384, Used: 11, Available: size/16384 - 11}},
		"btrfs": {used}, // it has no fixed number of inodes
		block:   {{Unit: csi.VolumeUsage_BYTES, Total: size}},
	} {
		t.Run(fs, func(t *testing.T) {
			w := newWorld(t)
			id := w.create(t, "pvc-1", fs, size)
			w.publish(t, id, fs, "a")
			for range 2 {
				got := must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a") + "/"})
				if diff := cmp.Diff(want, got.GetUsage(), protocmp.Transform()); diff != "" {
					t.Errorf("usage (-want +got):\n%s", diff)
				}
				w.restart(t)
			}
		})
	}
}

// A filesystem whose disk does not answer must not hold up kubelet, nor the stats of others.
func TestStatsOfAHungFilesystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, other := w.create(t, "pvc-1", "ext4", 64*mib), w.create(t, "pvc-2", "ext4", 64*mib)
		w.publish(t, id, "ext4", "a")
		w.publish(t, other, "ext4", "b")
		w.mounter.SetHung(w.target("a"), true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		asked := time.Now()
		_, err := rpc(ctx, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a")})
		wantCode(t, err, codes.DeadlineExceeded, "pvc-1")
		if took := time.Since(asked); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: other, VolumePath: w.target("b")})
	})
}

func TestStatsOfASuspendedDevice(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 64*mib)
	w.publish(t, id, "ext4", "a")
	w.lvm.SetSuspended("vg0", "pvc-1", true)
	fails(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a")}, codes.Unavailable, "suspended")
}

// A dead disk makes every lvm hang (harvester 11098, Azure 153): mounts, unmounts and stats of what is known go on.
func TestNodeGoesOnWhileLVMHangs(t *testing.T) {
	w := newWorld(t)
	id, staged := w.create(t, "pvc-1", "ext4", 64*mib), w.create(t, "pvc-2", "ext4", 64*mib)
	w.stage(t, staged, "ext4")
	w.lvm.SetHook(hang)
	defer w.lvm.SetHook(nil)
	w.publish(t, id, "ext4", "a")
	must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a")})
	w.unpublish(t, id, "a")
	w.unstage(t, id)
	w.unstage(t, staged)
	must(t, w.d, (*Driver).Probe, &csi.ProbeRequest{})
	must(t, w.d, (*Driver).NodeGetInfo, &csi.NodeGetInfoRequest{})
}
