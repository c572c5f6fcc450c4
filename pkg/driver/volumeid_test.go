package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestVolumeIDs(t *testing.T) {
	for _, id := range []string{"vg0/pvc-1:35971be6", "vg0/pvc-1", "v.g_0+/a", "vg0/csi-0123456789abcdef0123456789abcdef:00000000"} {
		got, err := parseVolumeID(id)
		if err != nil || got.String() != id || got.byHand() != !strings.Contains(id, ":") {
			t.Errorf("%s is read as %+v, %v", id, got, err)
		}
	}
	for _, id := range noIDs {
		if got, err := parseVolumeID(id); err == nil {
			t.Errorf("%q is read as %+v", id, got)
		} else {
			wantCode(t, statusOf(err), codes.NotFound, "<volume group>/<logical volume>")
		}
	}
}

// noIDs are strings that can be no volume's ID.
var noIDs = []string{
	"x", "/", ":", "vg0", "vg0/", "/pvc-1", "vg0//pvc-1", "vg0/pvc-1/x", "../../etc/passwd", "vg0/..", "../pvc-1", "vg0/.", "vg0/../pvc-1:35971be6",
	"vg0/pvc-1:", "vg0/pvc-1:3597", "vg0/pvc-1:35971BE6", "vg0/pvc-1:35971be6:35971be6", "vg0/pvc-1:zzzzzzzz", "vg0:35971be6", "vg0/-a:35971be6", "-vg/a:35971be6",
	"vg0/snapshot1:35971be6", "vg0/x_rimage_0:35971be6", "vg0/pvc 1:35971be6", "vg0/pvc-1\n:35971be6", `vg0/"pvc":35971be6`, "vg0/@tag:35971be6",
	"vg0/" + strings.Repeat("n", 64) + ":35971be6", strings.Repeat("v", 56) + "/pvc-1:35971be6", "/dev/vg0/pvc-1", "vg0/" + strings.Repeat("n", 124), strings.Repeat("é", 1000),
}

// The hash is of the node ID alone, and must never change: it is in the IDs of all volumes.
func TestNodeHash(t *testing.T) {
	if got := nodeHash("node-1"); got != "35971be6" {
		t.Errorf("the hash of node-1 is %s", got)
	}
}

func TestTopologyValue(t *testing.T) {
	for nodeID, want := range map[string]string{
		"node-1":                             "node-1",
		"a":                                  "a",
		"ip-10-0-0-1.ec2.internal":           "ip-10-0-0-1.ec2.internal",
		strings.Repeat("n", 63):              strings.Repeat("n", 63),
		strings.Repeat("n", 64):              "node-",
		"node-":                              "node-",
		"node/1":                             "node-",
		strings.Repeat("n.", 90) + "example": "node-",
	} {
		w := newWorld(t, withConfig(func(c *Config) { c.NodeID = nodeID }))
		got := w.d.topologyValue()
		if want == "node-" && (len(got) != 37 || !labelValue.MatchString(got) || !strings.HasPrefix(got, want)) || want != "node-" && got != want {
			t.Errorf("topology value of %q is %q", nodeID, got)
		}
	}
}

// A node's name may be too long for a label. Whatever stands for it then, the node says the same of itself, of its volumes and of
// its capacity, and its ID stays the name.
func TestTopologyIsOne(t *testing.T) {
	for _, nodeID := range []string{"node-1", strings.Repeat("n", 63), strings.Repeat("n", 64), strings.Repeat("n.", 90) + "example"} {
		w := newWorld(t, withConfig(func(c *Config) { c.NodeID = nodeID }))
		for range 2 {
			info := must(t, w.d, (*Driver).NodeGetInfo, &csi.NodeGetInfoRequest{})
			if info.GetNodeId() != nodeID {
				t.Errorf("node ID %q, want %q", info.GetNodeId(), nodeID)
			}
			here := info.GetAccessibleTopology()
			req := createRequest("pvc-1", block, 64*mib)
			req.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{here}}
			got := must(t, w.d, (*Driver).CreateVolume, req).GetVolume().GetAccessibleTopology()
			if diff := cmp.Diff([]*csi.Topology{here}, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: the volume's topology (-node +volume):\n%s", nodeID, diff)
			}
			if c := must(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{AccessibleTopology: here}); c.GetAvailableCapacity() == 0 {
				t.Errorf("%s: no capacity", nodeID)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	good := func() Config { return Config{Name: "lvm-csi.io", NodeID: "node-1", DefaultVG: "vg0"} }
	for name, tc := range map[string]struct {
		edit func(*Config)
		word string // of the message; "" is for a good one
	}{
		"good":                  {func(*Config) {}, ""},
		"no default VG":         {func(c *Config) { c.DefaultVG = "" }, ""},
		"54 letters":            {func(c *Config) { c.Name = strings.Repeat("n", 54) }, ""},
		"no name":               {func(c *Config) { c.Name = "" }, "driver name"},
		"55 letters":            {func(c *Config) { c.Name = strings.Repeat("n", 55) }, "at most 54"},
		"capitals":              {func(c *Config) { c.Name = "LVM" }, "lower-case"},
		"begins with a dot":     {func(c *Config) { c.Name = ".lvm" }, "beginning"},
		"a slash":               {func(c *Config) { c.Name = "lvm/csi" }, "driver name"},
		"no node":               {func(c *Config) { c.NodeID = "" }, "node ID"},
		"a long node":           {func(c *Config) { c.NodeID = strings.Repeat("n", 193) }, "192"},
		"default VG":            {func(c *Config) { c.DefaultVG = "a/b" }, "default volume group"},
		"reserve of no VG":      {func(c *Config) { c.Reserve = map[string]int64{"": 1} }, "reserve"},
		"negative reserve":      {func(c *Config) { c.Reserve = map[string]int64{"vg0": -1} }, "negative"},
		"reserve of another VG": {func(c *Config) { c.Reserve = map[string]int64{"vg9": 1} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := good()
			tc.edit(&c)
			err := c.Check()
			if (err == nil) != (tc.word == "") || err != nil && !strings.Contains(err.Error(), tc.word) {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}
