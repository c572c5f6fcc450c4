package driver

import (
	"math"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// What CreateVolume and GetCapacity are asked wrongly gets its code and a message that names the field and what to do, and changes nothing.

func TestBadCreate(t *testing.T) {
	type edit = func(*csi.CreateVolumeRequest)
	for name, tc := range map[string]struct {
		opts  []option
		given func(w *world)
		edit  edit // of a good request for 64 MiB of ext4
		code  codes.Code
		words []string
	}{
		"no name": {
			edit: func(r *csi.CreateVolumeRequest) { r.Name = "" },
			code: codes.InvalidArgument, words: []string{"name is missing"},
		},
		"a name that no tag holds": {
			edit: func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("é", 500) },
			code: codes.InvalidArgument, words: []string{"name", "long"},
		},
		"no capabilities": {
			edit: func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil },
			code: codes.InvalidArgument, words: []string{"volume_capabilities is missing"},
		},
		"neither block nor mount": {
			edit: func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessType = nil },
			code: codes.InvalidArgument, words: []string{"volume_capability.access_type"},
		},
		"both block and mount": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{capability("ext4"), capability(block)}
			},
			code: codes.InvalidArgument, words: []string{"volume_capabilities", "mount", "block"},
		},
		"both block and mount of any filesystem": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{capability(""), capability(block)}
			},
			code: codes.InvalidArgument, words: []string{"volume_capabilities", "mount", "block"},
		},
		"two filesystems": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{capability("ext4"), capability("xfs")}
			},
			code: codes.InvalidArgument, words: []string{"volume_capabilities", "ext4", "xfs"},
		},
		"unsupported filesystem": {
			edit: func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = capability("ntfs") },
			code: codes.InvalidArgument, words: []string{"fs_type", "ntfs", "choose ext4, xfs or btrfs"},
		},
		"block by the name of a filesystem": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "block"}}
			},
			code: codes.InvalidArgument, words: []string{"fs_type", "choose"},
		},
		"no access mode": {
			edit: func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessMode = nil },
			code: codes.InvalidArgument, words: []string{"access_mode", "use ReadWriteOnce"},
		},
		"many nodes": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities[0] = capability("ext4", csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
			},
			code: codes.InvalidArgument, words: []string{"access_mode", "MULTI_NODE_MULTI_WRITER", "use ReadWriteOnce"},
		},
		"many readers": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities[0] = capability("ext4", csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
			},
			code: codes.InvalidArgument, words: []string{"access_mode", "MULTI_NODE_READER_ONLY"},
		},
		"unknown parameter": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["volumegroup"] = "vg0" },
			code: codes.InvalidArgument, words: []string{`parameter "volumegroup" is unknown`, "volumeGroup", "erase"},
		},
		"unknown layout": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["layout"] = "raid1" },
			code: codes.InvalidArgument, words: []string{"layout", "raid1", "linear"},
		},
		"unknown erase": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["erase"] = "shred" },
			code: codes.InvalidArgument, words: []string{"erase", "shred", "choose zero, discard or none"},
		},
		"mkfs options for block": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.Parameters["mkfsOptions"], r.VolumeCapabilities[0] = "-m 0", capability(block)
			},
			code: codes.InvalidArgument, words: []string{"mkfsOptions", "block"},
		},
		"mkfs options that mkfs refuses": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["mkfsOptions"] = "--bad" },
			code: codes.InvalidArgument, words: []string{"mkfsOptions", "--bad"},
		},
		"volume group's name": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["volumeGroup"] = "../vg0" },
			code: codes.InvalidArgument, words: []string{"volumeGroup", "../vg0", "LVM takes"},
		},
		"no volume group": {
			opts: []option{withConfig(func(c *Config) { c.DefaultVG = "" })},
			code: codes.InvalidArgument, words: []string{"volumeGroup", "--default-volume-group"},
		},
		"absent volume group": {
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["volumeGroup"] = "vg9" },
			code: codes.ResourceExhausted, words: []string{"vg9", "not found"},
		},
		"partial volume group": {
			given: func(w *world) {
				w.lvm.AddPV("vg0", gib)
				w.lvm.SetMissing("vg0", w.lvm.PVs("vg0")[0], true)
			},
			code: codes.ResourceExhausted, words: []string{"vg0", "missing"},
		},
		"exported volume group": {
			opts: []option{withVG("vg0", lvmtest.VGOptions{Exported: true})},
			code: codes.ResourceExhausted, words: []string{"vg0", "exported", "vgimport"},
		},
		"system volume group": {
			opts: []option{withConfig(func(c *Config) { c.SystemVGs = []string{"vg0"} })},
			code: codes.ResourceExhausted, words: []string{"vg0", "root file system", "--reserve"},
		},
		"content source": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
					Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "vg0/pvc-0:35971be6"}}}
			},
			code: codes.InvalidArgument, words: []string{"volume_content_source"},
		},
		"mutable parameters": {
			edit: func(r *csi.CreateVolumeRequest) { r.MutableParameters = map[string]string{"iops": "1"} },
			code: codes.InvalidArgument, words: []string{"mutable_parameters", "remove the VolumeAttributesClass"},
		},
		"another node": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{
					{Segments: map[string]string{"topology.lvm-csi.io/node": "node-2"}}}}
			},
			code: codes.ResourceExhausted, words: []string{"accessibility_requirements", "node-1"},
		},
		"another driver's topology": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{
					{Segments: map[string]string{"topology.example.com/node": "node-1"}}}}
			},
			code: codes.ResourceExhausted, words: []string{"accessibility_requirements"},
		},
		"negative size": {
			edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: -1} },
			code: codes.InvalidArgument, words: []string{"capacity_range", "negative", "required_bytes -1"},
		},
		"negative limit": {
			edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: -1} },
			code: codes.InvalidArgument, words: []string{"capacity_range", "negative", "limit_bytes -1"},
		},
		"limit below what is required": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: 8 * mib, LimitBytes: 4 * mib}
			},
			code: codes.OutOfRange, words: []string{"limit_bytes", "less than required_bytes"},
		},
		"no extent count fits": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: 5 * mib, LimitBytes: 7 * mib}
			},
			code: codes.OutOfRange, words: []string{"limit_bytes", "extents", "ask for a multiple"},
		},
		"a limit below one extent": {
			edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: 2 * mib} },
			code: codes.OutOfRange, words: []string{"limit_bytes", "extent"},
		},
		"a limit below the filesystem's least": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities[0] = capability("xfs")
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: 8 * mib, LimitBytes: 16 * mib}
			},
			code: codes.OutOfRange, words: []string{"limit_bytes", "xfs", "ask for that much"},
		},
		"more than the volume group has": { // pmem-csi 805, host-path 331, Azure 62: another code left the pod stuck
			edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 5 * gib },
			code: codes.ResourceExhausted, words: []string{"vg0", "free"},
		},
		"more than the volume group has, under a limit": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: 5 * gib, LimitBytes: 6 * gib}
			},
			code: codes.ResourceExhausted, words: []string{"vg0", "free"},
		},
		"more than there is of bytes": {
			edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = math.MaxInt64 },
			code: codes.ResourceExhausted, words: []string{"required_bytes"},
		},
		"more than there is of bytes, under a limit": {
			edit: func(r *csi.CreateVolumeRequest) {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: math.MaxInt64, LimitBytes: math.MaxInt64}
			},
			code: codes.ResourceExhausted, words: []string{"required_bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.opts...)
			if tc.given != nil {
				tc.given(w)
			}
			req := createRequest("pvc-1", "ext4", 64*mib)
			if tc.edit != nil {
				tc.edit(req)
			}
			before := w.state(t)
			for range 2 { // asking again changes nothing
				fails(t, w.d, (*Driver).CreateVolume, req, tc.code, tc.words...)
			}
			unchanged(t, w, before)
		})
	}
}

// unchanged checks that a node is as it was, but for the number of metadata changes: what was begun may have been undone.
func unchanged(t *testing.T, w *world, before nodeState) {
	t.Helper()
	after := w.state(t)
	for _, s := range []nodeState{before, after} {
		for _, vg := range s.VGs {
			if vg != nil {
				vg.Seqno = 0
			}
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the node has changed (-before +after):\n%s", diff)
	}
}

// Only parameters that no volume could be made with are an error: any other leaves the last figure published.
func TestBadCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		words      []string
	}{
		"unknown parameter": {map[string]string{"volumegroup": "vg0"}, []string{`"volumegroup" is unknown`}},
		"erase":             {map[string]string{"erase": "shred"}, []string{"erase", "choose"}},
		"volume group":      {map[string]string{"volumeGroup": "-x"}, []string{"volumeGroup", "-x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fails(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{Parameters: tc.parameters}, codes.InvalidArgument, tc.words...)
		})
	}
}
