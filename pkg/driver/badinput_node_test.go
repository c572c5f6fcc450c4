package driver

import (
	"context"
	"math"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// What the Node RPCs are asked wrongly of a volume that is there. pvc-1 is ext4 and staged, pvc-2 ext4 and published at
// other, raw is block.

func TestBadNodeRequests(t *testing.T) {
	const one, two, raw = "vg0/pvc-1:35971be6", "vg0/pvc-2:35971be6", "vg0/raw:35971be6"
	const absent = "vg0/pvc-9:35971be6"
	stage := func(edit func(*world, *csi.NodeStageVolumeRequest)) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			req := w.stageRequest(one, "ext4")
			edit(w, req)
			_, err := rpc(ctx, w.d, (*Driver).NodeStageVolume, req)
			return err
		}
	}
	publish := func(id, fs string, edit func(*world, *csi.NodePublishVolumeRequest)) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			req := w.publishRequest(id, fs, "target")
			edit(w, req)
			_, err := rpc(ctx, w.d, (*Driver).NodePublishVolume, req)
			return err
		}
	}
	expand := func(edit func(*world, *csi.NodeExpandVolumeRequest)) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			req := expandRequest(one, w.staging(one), 128*mib)
			edit(w, req)
			_, err := rpc(ctx, w.d, (*Driver).NodeExpandVolume, req)
			return err
		}
	}
	for name, tc := range map[string]struct {
		call  func(context.Context, *world) error
		given func(t *testing.T, w *world)
		code  codes.Code
		words []string
	}{
		// Checks run in this order: empty fields, then the ID, then the shape of paths.
		"stage without a path": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeId, r.StagingTargetPath = absent, "" }),
			code: codes.InvalidArgument, words: []string{"staging_target_path is missing"},
		},
		"stage without a capability": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeId, r.VolumeCapability = absent, nil }),
			code: codes.InvalidArgument, words: []string{"volume_capability is missing"},
		},
		"stage an absent volume at a relative path": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeId, r.StagingTargetPath = absent, "a/b" }),
			code: codes.NotFound,
		},
		"stage at a relative path": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = "a/b" }),
			code: codes.InvalidArgument, words: []string{"staging_target_path", "a/b", "absolute"},
		},
		"stage at a symbolic link": {
			given: func(t *testing.T, w *world) {
				if err := os.Symlink("/", w.target("link")); err != nil {
					t.Fatal(err)
				}
			},
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = w.target("link") }),
			code: codes.InvalidArgument, words: []string{"staging_target_path", "symbolic link"},
		},
		"stage for many nodes": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) {
				r.VolumeCapability = capability("ext4", csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER)
			}),
			code: codes.InvalidArgument, words: []string{"access_mode", "use ReadWriteOnce"},
		},
		"stage neither block nor mount": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeCapability.AccessType = nil }),
			code: codes.InvalidArgument, words: []string{"access_type"},
		},
		"stage an unsupported filesystem": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeCapability = capability("vfat") }),
			code: codes.InvalidArgument, words: []string{"fs_type", "vfat", "choose"},
		},
		"stage another filesystem than there is": {
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) {
				r.VolumeCapability, r.StagingTargetPath = capability("xfs"), w.target("staging")
			}),
			code: codes.InvalidArgument, words: []string{"fs_type", "xfs", "ext4", "correct the PV"},
		},
		"stage again as another filesystem": {
			call: stage(func(_ *world, r *csi.NodeStageVolumeRequest) { r.VolumeCapability = capability("xfs") }),
			code: codes.InvalidArgument, words: []string{"fs_type", "xfs", "ext4"},
		},
		"stage a blank device": {
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) {
				r.VolumeId, r.StagingTargetPath = raw, w.target("staging")
			}),
			code: codes.FailedPrecondition, words: []string{"no filesystem", "formats only when it creates"},
		},
		"stage a filesystem that is not ours to mount": {
			given: func(_ *testing.T, w *world) { w.lvm.SetContents("vg0", "raw", "crypto_LUKS") },
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) {
				r.VolumeId, r.StagingTargetPath, r.VolumeCapability = raw, w.target("staging"), capability("")
			}),
			code: codes.FailedPrecondition, words: []string{"crypto_LUKS", "does not mount", "Block"},
		},
		"stage a signature of RAID": { // topolvm 1033, 1127: it is no filesystem
			given: func(_ *testing.T, w *world) { w.lvm.SetContents("vg0", "raw", "linux_raid_member") },
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) {
				r.VolumeId, r.StagingTargetPath = raw, w.target("staging")
			}),
			code: codes.FailedPrecondition, words: []string{"no filesystem"},
		},
		"stage where another volume is": {
			call: stage(func(w *world, r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = w.staging(two) }),
			code: codes.FailedPrecondition, words: []string{"staging_target_path", "another volume"},
		},
		"publish without a target": {
			call: publish(absent, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.TargetPath = "" }),
			code: codes.InvalidArgument, words: []string{"target_path is missing"},
		},
		"publish without a capability": {
			call: publish(absent, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil }),
			code: codes.InvalidArgument, words: []string{"volume_capability is missing"},
		},
		"publish an absent volume at a relative target": {
			call: publish(absent, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.TargetPath = "a" }),
			code: codes.NotFound,
		},
		"publish at a relative target": {
			call: publish(one, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.TargetPath = "a" }),
			code: codes.InvalidArgument, words: []string{"target_path", "absolute"},
		},
		"publish from a relative staging path": {
			call: publish(one, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = "a" }),
			code: codes.InvalidArgument, words: []string{"staging_target_path", "absolute"},
		},
		"publish without a staging path": {
			call: publish(one, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = "" }),
			code: codes.FailedPrecondition, words: []string{"staging_target_path is missing", "staged first"},
		},
		"publish what is not staged": {
			call: publish(one, "ext4", func(w *world, r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = w.target("staging") }),
			code: codes.FailedPrecondition, words: []string{"not staged", "stage it first"},
		},
		"publish what another volume stages": {
			call: publish(one, "ext4", func(w *world, r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = w.staging(two) }),
			code: codes.FailedPrecondition, words: []string{"not staged"},
		},
		"publish at a file": {
			given: func(t *testing.T, w *world) { writeFile(t, w.target("target")) },
			call:  publish(one, "ext4", func(*world, *csi.NodePublishVolumeRequest) {}),
			code:  codes.InvalidArgument, words: []string{"target_path", "no directory"},
		},
		"publish block at a directory": {
			given: func(t *testing.T, w *world) {
				if err := os.Mkdir(w.target("target"), 0o700); err != nil {
					t.Fatal(err)
				}
			},
			call: publish(raw, block, func(*world, *csi.NodePublishVolumeRequest) {}),
			code: codes.InvalidArgument, words: []string{"target_path", "no regular file", "block"},
		},
		"publish where another volume is": {
			call: publish(one, "ext4", func(w *world, r *csi.NodePublishVolumeRequest) { r.TargetPath = w.target("other") }),
			code: codes.FailedPrecondition, words: []string{"target_path", "another volume"},
		},
		"publish block where another volume is": {
			call: publish(raw, block, func(w *world, r *csi.NodePublishVolumeRequest) { r.TargetPath = w.target("other") }),
			code: codes.FailedPrecondition, words: []string{"target_path", "another volume"},
		},
		"publish for many nodes": {
			call: publish(one, "ext4", func(_ *world, r *csi.NodePublishVolumeRequest) {
				r.VolumeCapability = capability("ext4", csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
			}),
			code: codes.InvalidArgument, words: []string{"access_mode"},
		},
		"unpublish without a target": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: two})
				return err
			},
			code: codes.InvalidArgument, words: []string{"target_path is missing"},
		},
		"unpublish a relative target": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: two, TargetPath: "other"})
				return err
			},
			code: codes.InvalidArgument, words: []string{"target_path", "absolute"},
		},
		"unstage without a path": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeUnstageVolume, &csi.NodeUnstageVolumeRequest{VolumeId: two})
				return err
			},
			code: codes.InvalidArgument, words: []string{"staging_target_path is missing"},
		},
		"stats without a path": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: two})
				return err
			},
			code: codes.InvalidArgument, words: []string{"volume_path is missing"},
		},
		"stats where nothing is": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: two, VolumePath: w.dir})
				return err
			},
			code: codes.NotFound, words: []string{"nothing is mounted", "volume_path"},
		},
		"stats where another volume is": {
			call: func(ctx context.Context, w *world) error {
				_, err := rpc(ctx, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: one, VolumePath: w.target("other")})
				return err
			},
			code: codes.NotFound, words: []string{"another volume", "volume_path"},
		},
		"expand without a path": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.VolumeId, r.VolumePath = absent, "" }),
			code: codes.InvalidArgument, words: []string{"volume_path is missing"},
		},
		"expand an absent volume at a relative path": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.VolumeId, r.VolumePath = absent, "a" }),
			code: codes.NotFound,
		},
		"expand at a relative path": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.VolumePath = "a" }),
			code: codes.InvalidArgument, words: []string{"volume_path", "absolute"},
		},
		"expand what is not mounted there": {
			call: expand(func(w *world, r *csi.NodeExpandVolumeRequest) { r.VolumePath = w.target("nothing") }),
			code: codes.FailedPrecondition, words: []string{"volume_path", "stage it first"},
		},
		"expand where another volume is": {
			call: expand(func(w *world, r *csi.NodeExpandVolumeRequest) { r.VolumePath = w.target("other") }),
			code: codes.FailedPrecondition, words: []string{"volume_path", "stage it first"},
		},
		"expand to a negative size": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }),
			code: codes.InvalidArgument, words: []string{"capacity_range", "negative"},
		},
		"expand beyond the limit": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.CapacityRange.LimitBytes = 127 * mib }),
			code: codes.OutOfRange, words: []string{"limit_bytes", "less than required_bytes"},
		},
		"expand to what no extent count fits": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: 129 * mib, LimitBytes: 131 * mib}
			}),
			code: codes.OutOfRange, words: []string{"limit_bytes", "extents", "ask for a multiple"},
		},
		"expand to more than the volume group has": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.CapacityRange.RequiredBytes = 5 * gib }),
			code: codes.OutOfRange, words: []string{"free", "lower the request", "vg0"},
		},
		"expand to more than there is of bytes": {
			call: expand(func(_ *world, r *csi.NodeExpandVolumeRequest) { r.CapacityRange.RequiredBytes = math.MaxInt64 }),
			code: codes.OutOfRange, words: []string{"required_bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, "pvc-1", "ext4", 64*mib)
			w.create(t, "pvc-2", "ext4", 64*mib)
			w.create(t, "raw", block, 64*mib)
			w.stage(t, one, "ext4")
			w.publish(t, two, "ext4", "other")
			if tc.given != nil {
				tc.given(t, w)
			}
			before := w.state(t)
			for range 2 {
				wantCode(t, tc.call(t.Context(), w), tc.code, tc.words...)
			}
			unchanged(t, w, before)
		})
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
}
