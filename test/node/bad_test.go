//go:build vm

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// TestBadInput asks for what cannot be had, on real LVM, and sees that nothing has changed. The unit tests of pkg/driver have
// the full table; here is what depends on what LVM and the kernel really say.
func TestBadInput(t *testing.T) {
	h := newHost(t, []int64{300 * mib, 300 * mib})
	v := h.create(t, "pvc-good", "ext4", 64*mib, nil)
	raw := h.create(t, "pvc-raw", Block, 32*mib, nil)
	h.mount(t, v)
	run(t, "lvcreate", "-qq", "-y", "-n", "foreign", "-L", "16m", h.vg.Name)
	run(t, "mkfs.ext4", "-q", "-L", "foreign", "/dev/"+h.vg.Name+"/foreign")
	fields := "lv_size,lv_tags,lv_active,lv_time"
	before := fmt.Sprint(h.vg.LVs(fields))
	ctx := t.Context()
	create := func(r *csi.CreateVolumeRequest) error { _, err := h.CreateVolume(ctx, r); return err }
	sized := func(required, limit int64) *csi.CreateVolumeRequest {
		r := Request("pvc-bad", "ext4", required, nil)
		r.CapacityRange.LimitBytes = limit
		return r
	}
	made := v.ID[len(v.ID)-len(":01234567"):]
	bare := h.volume(h.vg.Name+"/foreign", "bare", "ext4", 0)
	posing := h.volume(h.vg.Name+"/foreign"+made, "posing", "ext4", 0)
	away := h.volume(h.vg.Name+"/pvc-good:00000000", "away", "ext4", 0)
	dots := h.volume("../"+v.lv()+made, "dots", "ext4", 0)
	t.Run("parameter", func(t *testing.T) {
		wantCode(t, create(Request("pvc-bad", "ext4", 16*mib, map[string]string{"raid": "1"})), codes.InvalidArgument, `"raid"`, "volumeGroup")
	})
	t.Run("mkfs option", func(t *testing.T) {
		wantCode(t, create(Request("pvc-bad", "ext4", 16*mib, map[string]string{"mkfsOptions": "--no-such-option"})), codes.InvalidArgument, "mkfsOptions")
	})
	t.Run("limit below required", func(t *testing.T) { wantCode(t, create(sized(64*mib, 32*mib)), codes.OutOfRange, "limit_bytes") })
	t.Run("no extent count", func(t *testing.T) { wantCode(t, create(sized(17*mib, 18*mib)), codes.OutOfRange, "extent") })
	t.Run("over the VG", func(t *testing.T) { wantCode(t, create(sized(1<<40, 0)), codes.ResourceExhausted, "space") })
	t.Run("over LVM", func(t *testing.T) { wantCode(t, create(sized(1<<62, 0)), codes.ResourceExhausted) })
	t.Run("no such VG", func(t *testing.T) {
		wantCode(t, create(Request("pvc-bad", "ext4", 16*mib, map[string]string{"volumeGroup": "nosuch"})), codes.ResourceExhausted, "nosuch")
	})
	t.Run("other size", func(t *testing.T) {
		wantCode(t, create(Request("pvc-good", "ext4", 128*mib, nil)), codes.AlreadyExists, "bytes")
	})
	t.Run("other filesystem", func(t *testing.T) {
		wantCode(t, create(Request("pvc-raw", "ext4", 32*mib, nil)), codes.AlreadyExists, "ext4")
	})
	t.Run("name of a foreign LV", func(t *testing.T) {
		wantCode(t, create(Request("foreign", "ext4", 16*mib, nil)), codes.AlreadyExists, "rename")
	})
	t.Run("deleting a foreign LV", func(t *testing.T) { wantCode(t, bare.Delete(ctx), codes.FailedPrecondition, "Retain") })
	t.Run("deleting a foreign LV that poses", func(t *testing.T) { wantCode(t, posing.Delete(ctx), codes.FailedPrecondition) })
	t.Run("deleting another node's", func(t *testing.T) { wantCode(t, away.Delete(ctx), codes.FailedPrecondition, "another node") })
	t.Run("deleting ..", func(t *testing.T) { wantCode(t, dots.Delete(ctx), codes.OK) })
	t.Run("staging ..", func(t *testing.T) { wantCode(t, dots.Stage(ctx), codes.NotFound) })
	t.Run("staging another node's", func(t *testing.T) { wantCode(t, away.Stage(ctx), codes.NotFound, "another node") })
	t.Run("staging a foreign LV that poses", func(t *testing.T) { wantCode(t, posing.Stage(ctx), codes.NotFound, "volumeHandle") })
	t.Run("staging a blank device", func(t *testing.T) {
		blank := h.volume(raw.ID, "blank", "ext4", 0)
		wantCode(t, blank.Stage(ctx), codes.FailedPrecondition, "no filesystem")
	})
	t.Run("staging another filesystem", func(t *testing.T) {
		other := h.volume(v.ID, "other", "xfs", 0)
		wantCode(t, other.Stage(ctx), codes.InvalidArgument, "fs_type", "ext4")
	})
	t.Run("block at a directory", func(t *testing.T) {
		if err := os.MkdirAll(raw.Target(), 0o750); err != nil {
			t.Fatal(err)
		}
		wantCode(t, raw.Mount(ctx), codes.InvalidArgument, "target_path", "regular file")
		if err := os.Remove(raw.Target()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("filesystem at a file", func(t *testing.T) {
		file := filepath.Join(h.dir, "file")
		write(t, file, "x")
		_, err := h.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging(), TargetPath: file, VolumeCapability: Capability("ext4")})
		wantCode(t, err, codes.InvalidArgument, "target_path", "directory")
	})
	t.Run("two volumes at one target", func(t *testing.T) {
		_, err := h.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: raw.ID, StagingTargetPath: raw.Staging(), TargetPath: v.Target(), VolumeCapability: Capability(Block)})
		wantCode(t, err, codes.FailedPrecondition, "another volume")
	})
	if after := fmt.Sprint(h.vg.LVs(fields)); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	t.Run("static", func(t *testing.T) { staticPV(t, h, bare) })
	run(t, "lvremove", "-qq", "-y", h.vg.Name+"/foreign")
}

// staticPV mounts an LV that the driver did not make.
func staticPV(t *testing.T, h *host, v *Volume) {
	h.mount(t, v)
	if label := run(t, "findmnt", "-no", "LABEL", v.Target()); label != "foreign" {
		t.Errorf("mounted is %q", label)
	}
	wantCode(t, v.Expand(t.Context(), 64*mib), codes.FailedPrecondition, "lvextend")
	if err := v.Unmount(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMissingPV: while a disk is away nothing is "not found", nothing is granted, and what is not on it works.
func TestMissingPV(t *testing.T) {
	h := newHost(t, []int64{200 * mib, 200 * mib})
	here := h.create(t, "pvc-here", "ext4", 150*mib, nil)
	there := h.create(t, "pvc-there", "ext4", 150*mib, nil)
	h.mount(t, here)
	run(t, "lvchange", "-qq", "-an", h.vg.Name+"/"+there.lv())
	file := h.vg.files[1]
	run(t, "losetup", "-d", h.vg.Loops[1])
	if got := h.available(t); got != 0 {
		t.Errorf("%d bytes available on a VG that misses a PV", got)
	}
	_, err := h.Create(t.Context(), "pvc-more", "ext4", 16*mib, nil)
	wantCode(t, err, codes.ResourceExhausted, "missing")
	wantCode(t, there.Delete(t.Context()), codes.Unavailable, "physical volume")
	wantCode(t, here.Expand(t.Context(), 180*mib), codes.Unavailable, "missing")
	wantCode(t, there.Stage(t.Context()), codes.Unavailable)
	write(t, filepath.Join(here.Target(), "file"), "goes on")
	run(t, "losetup", h.vg.Loops[1], file)
	run(t, "udevadm", "settle")
	h.mount(t, there)
}
