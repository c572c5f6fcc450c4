package driver

import (
	"context"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// callsByID are all RPCs that take a volume ID, on paths that are good.
var callsByID = []struct {
	name string
	call func(ctx context.Context, w *world, id string) error
	undo bool // kubelet and the provisioner retry for ever: what is not there is undone
}{
	{"DeleteVolume", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).DeleteVolume, deleteRequest(id))
		return err
	}, true},
	{"ControllerGetVolume", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).ControllerGetVolume, &csi.ControllerGetVolumeRequest{VolumeId: id})
		return err
	}, false},
	{"ValidateVolumeCapabilities", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).ValidateVolumeCapabilities,
			&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{capability("ext4")}})
		return err
	}, false},
	{"NodeStageVolume", func(ctx context.Context, w *world, id string) error {
		req := w.stageRequest(id, "ext4")
		req.StagingTargetPath = w.target("staging")
		_, err := rpc(ctx, w.d, (*Driver).NodeStageVolume, req)
		return err
	}, false},
	{"NodePublishVolume", func(ctx context.Context, w *world, id string) error {
		req := w.publishRequest(id, "ext4", "target")
		req.StagingTargetPath = w.target("staging")
		_, err := rpc(ctx, w.d, (*Driver).NodePublishVolume, req)
		return err
	}, false},
	{"NodeUnpublishVolume", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.target("target")})
		return err
	}, true},
	{"NodeUnstageVolume", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).NodeUnstageVolume, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.target("staging")})
		return err
	}, true},
	{"NodeGetVolumeStats", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("good")})
		return err
	}, false},
	{"NodeExpandVolume", func(ctx context.Context, w *world, id string) error {
		_, err := rpc(ctx, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("good"), 128*mib))
		return err
	}, false},
}

func TestBadIDs(t *testing.T) {
	type answers struct { // what differs from code
		code   codes.Code
		undo   codes.Code            // of RPCs that undo
		except map[string]codes.Code // by RPC
		words  []string
	}
	table := map[string]answers{
		"":                   {code: codes.InvalidArgument, undo: codes.InvalidArgument, words: []string{"volume_id is missing"}},
		"vg0/pvc-9:35971be6": {code: codes.NotFound, words: []string{"pvc-9"}},
		"vg0/pvc-9": {code: codes.NotFound, words: []string{"pvc-9"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
		"vg0/pvc-9:00000000": {code: codes.NotFound, words: []string{"another node", "node-1"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
		"vg9/pvc-9:00000000": {code: codes.NotFound, words: []string{"another node", "node-1"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
		// Somebody else's LV under an ID of ours, and a volume of ours under another node's ID.
		"vg0/foreign:35971be6": {code: codes.NotFound, words: []string{"vg0/foreign", "does not carry that ID"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
		"vg0/pvc-1:00000000": {code: codes.NotFound, words: []string{"another node"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
		// The VG is away: nothing is known.
		"vg9/pvc-9:35971be6": {code: codes.Unavailable, words: []string{"vg9", "not found"},
			except: map[string]codes.Code{"DeleteVolume": codes.Unavailable}},
		"vg9/pvc-9": {code: codes.Unavailable, words: []string{"vg9"},
			except: map[string]codes.Code{"DeleteVolume": codes.FailedPrecondition}},
	}
	for _, id := range noIDs {
		table[id] = answers{code: codes.NotFound, words: []string{"volume"}}
	}
	w := newWorld(t)
	w.lvm.AddForeignLV("vg0", "foreign", 64*mib)
	good := w.create(t, "pvc-1", "ext4", 64*mib)
	w.publish(t, good, "ext4", "good")
	before := w.state(t)
	for id, want := range table {
		for _, c := range callsByID {
			t.Run(c.name+" "+id[:min(30, len(id))], func(t *testing.T) {
				code := want.code
				switch special, ok := want.except[c.name]; {
				case ok:
					code = special
				case c.undo:
					code = want.undo
				case c.name == "NodeGetVolumeStats" && id == "vg0/pvc-1:00000000":
					code = codes.OK // it asks LVM nothing, and that LV is mounted there
				case c.name == "NodeGetVolumeStats" && code == codes.Unavailable:
					code = codes.NotFound // another volume is mounted there
				}
				words := want.words
				if code == codes.OK || c.name == "NodeGetVolumeStats" && id != "" {
					words = nil
				}
				for range 2 {
					wantCode(t, c.call(t.Context(), w, id), code, words...)
				}
			})
		}
	}
	unchanged(t, w, before)
}

// Whose ID it is does not matter while LVM cannot be asked: the LV may be here.
func TestUnreadableIsNotAbsent(t *testing.T) {
	for _, id := range []string{"vg0/pvc-1:35971be6", "vg0/pvc-1:00000000", "vg0/pvc-1"} {
		for _, c := range callsByID {
			if c.undo && c.name != "DeleteVolume" || c.name == "NodeGetVolumeStats" { // they ask LVM nothing
				continue
			}
			t.Run(c.name+" "+id, func(t *testing.T) {
				w := newWorld(t)
				w.lvm.AddForeignLV("vg0", "pvc-1", 64*mib)
				w.lvm.SetHook(func(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
					return lvm.Output{Code: 5, Log: []lvm.Message{{Type: "error", Text: "Error reading device /dev/sdb at 0 length 4096."}}}, nil
				})
				wantCode(t, c.call(t.Context(), w, id), codes.Unavailable, "error reading device")
			})
		}
	}
}
