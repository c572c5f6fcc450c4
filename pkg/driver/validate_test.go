package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

func TestValidate(t *testing.T) {
	type request = csi.ValidateVolumeCapabilitiesRequest
	const multi = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	for name, tc := range map[string]struct {
		id   string // pvc-1 holds ext4, raw is block, theirs was not made by this driver; "" is pvc-1
		edit func(*request)
		word string // of the reason; "" is confirmed
	}{
		"as made":        {"", func(*request) {}, ""},
		"any filesystem": {"", func(r *request) { r.VolumeCapabilities[0] = capability("") }, ""},
		"in every mode of one node": {"", func(r *request) {
			r.VolumeCapabilities = append(r.VolumeCapabilities, capability("ext4", multiWriter), capability("ext4", onePod), capability("ext4", reader))
		}, ""},
		"with its parameters": {"", func(r *request) {
			r.Parameters = map[string]string{"volumeGroup": "vg0", "erase": "zero", "csi.storage.k8s.io/fstype": "ext4"}
		}, ""},
		"another filesystem":         {"", func(r *request) { r.VolumeCapabilities[0] = capability("xfs") }, "xfs"},
		"one of two does not fit":    {"", func(r *request) { r.VolumeCapabilities = append(r.VolumeCapabilities, capability("xfs")) }, "xfs"},
		"as block":                   {"", func(r *request) { r.VolumeCapabilities[0] = capability(block) }, "block"},
		"an unsupported filesystem":  {"", func(r *request) { r.VolumeCapabilities[0] = capability("vfat") }, "vfat"},
		"on many nodes":              {"", func(r *request) { r.VolumeCapabilities[0] = capability("ext4", multi) }, "MULTI_NODE_MULTI_WRITER"},
		"neither block nor mount":    {"", func(r *request) { r.VolumeCapabilities[0].AccessType = nil }, "access_type"},
		"in another VG":              {"", func(r *request) { r.Parameters = map[string]string{"volumeGroup": "vg1"} }, "vg1"},
		"erased otherwise":           {"", func(r *request) { r.Parameters = map[string]string{"erase": "none"} }, "zero, not none"},
		"an unknown parameter":       {"", func(r *request) { r.Parameters = map[string]string{"iops": "1"} }, `"iops" is unknown`},
		"mutable parameters":         {"", func(r *request) { r.MutableParameters = map[string]string{"iops": "1"} }, "mutable_parameters"},
		"raw block":                  {"vg0/raw:35971be6", func(r *request) { r.VolumeCapabilities[0] = capability(block) }, ""},
		"raw block as ext4":          {"vg0/raw:35971be6", func(*request) {}, "block"},
		"raw block as any":           {"vg0/raw:35971be6", func(r *request) { r.VolumeCapabilities[0] = capability("") }, "block"},
		"somebody's":                 {"vg0/theirs", func(*request) {}, ""},
		"somebody's as block":        {"vg0/theirs", func(r *request) { r.VolumeCapabilities[0] = capability(block) }, ""},
		"somebody's on many nodes":   {"vg0/theirs", func(r *request) { r.VolumeCapabilities[0] = capability("ext4", multi) }, "MULTI_NODE"},
		"ours by a hand-written ID":  {"vg0/pvc-1", func(*request) {}, ""},
		"somebody's with parameters": {"vg0/theirs", func(r *request) { r.Parameters = map[string]string{"volumeGroup": "vg0"} }, `"volumeGroup"`},
		"a volume context":           {"", func(r *request) { r.VolumeContext = map[string]string{"bogus": "1"} }, `volume_context ["bogus"]`},
		"somebody's with a context":  {"vg0/theirs", func(r *request) { r.VolumeContext = map[string]string{"bogus": "1"} }, `volume_context ["bogus"]`},
		"with mkfsOptions":           {"", func(r *request) { r.Parameters = map[string]string{"mkfsOptions": "-i 4096"} }, "mkfsOptions"},
		"raw block of a class of xfs": {"vg0/raw:35971be6", func(r *request) {
			r.VolumeCapabilities[0], r.Parameters = capability(block), map[string]string{"csi.storage.k8s.io/fstype": "xfs"}
		}, ""},
		"of a class of xfs": {"", func(r *request) {
			r.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "xfs"}
		}, "holds ext4, not xfs"},
		"ours by a hand-written ID, as block":       {"vg0/pvc-1", func(r *request) { r.VolumeCapabilities[0] = capability(block) }, "not block"},
		"ours by a hand-written ID, as xfs":         {"vg0/pvc-1", func(r *request) { r.VolumeCapabilities[0] = capability("xfs") }, "not xfs"},
		"raw block by a hand-written ID, as any":    {"vg0/raw", func(r *request) { r.VolumeCapabilities[0] = capability("") }, "block"},
		"somebody's with an unsupported filesystem": {"vg0/theirs", func(r *request) { r.VolumeCapabilities[0] = capability("vfat") }, "vfat"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
			req := &request{VolumeId: w.create(t, "pvc-1", "ext4", 64*mib), VolumeCapabilities: []*csi.VolumeCapability{capability("ext4")}}
			w.create(t, "raw", block, 64*mib)
			w.lvm.AddForeignLV("vg0", "theirs", 64*mib)
			if tc.id != "" {
				req.VolumeId = tc.id
			}
			tc.edit(req)
			before := w.state(t)
			for range 2 {
				got := must(t, w.d, (*Driver).ValidateVolumeCapabilities, req)
				if confirmed := got.GetConfirmed() != nil; confirmed != (tc.word == "") || !strings.Contains(got.GetMessage(), tc.word) {
					t.Errorf("got %v", got)
				}
				if n := len(got.GetConfirmed().GetVolumeCapabilities()); tc.word == "" && n != len(req.GetVolumeCapabilities()) {
					t.Errorf("%d capabilities are confirmed", n)
				}
				w.restart(t)
			}
			unchanged(t, w, before)
		})
	}
	w := newWorld(t)
	fails(t, w.d, (*Driver).ValidateVolumeCapabilities, &request{VolumeId: "vg0/pvc-9"}, codes.InvalidArgument, "volume_capabilities is missing")
}
