package driver

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// Expansion is the node's alone and ONLINE: then one resizer serves all nodes and makes no CSI call.
func TestCapabilities(t *testing.T) {
	w := newWorld(t)
	var plugin, controller, node []string
	for _, c := range must(t, w.d, (*Driver).GetPluginCapabilities, &csi.GetPluginCapabilitiesRequest{}).GetCapabilities() {
		if c.GetService() != nil {
			plugin = append(plugin, c.GetService().GetType().String())
		} else {
			plugin = append(plugin, c.GetVolumeExpansion().GetType().String())
		}
	}
	for _, c := range must(t, w.d, (*Driver).ControllerGetCapabilities, &csi.ControllerGetCapabilitiesRequest{}).GetCapabilities() {
		controller = append(controller, c.GetRpc().GetType().String())
	}
	for _, c := range must(t, w.d, (*Driver).NodeGetCapabilities, &csi.NodeGetCapabilitiesRequest{}).GetCapabilities() {
		node = append(node, c.GetRpc().GetType().String())
	}
	for _, tc := range []struct {
		name      string
		got, want []string
	}{
		{"plugin", plugin, []string{"CONTROLLER_SERVICE", "ONLINE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"}},
		{"controller", controller, []string{"CREATE_DELETE_VOLUME", "GET_CAPACITY", "GET_VOLUME", "LIST_VOLUMES", "SINGLE_NODE_MULTI_WRITER"}},
		{"node", node, []string{"EXPAND_VOLUME", "GET_VOLUME_STATS", "SINGLE_NODE_MULTI_WRITER", "STAGE_UNSTAGE_VOLUME"}},
	} {
		slices.Sort(tc.got)
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestNodeInfo(t *testing.T) {
	w := newWorld(t)
	want := &csi.NodeGetInfoResponse{NodeId: "node-1",
		AccessibleTopology: &csi.Topology{Segments: map[string]string{"topology.lvm-csi.io/node": "node-1"}}}
	if diff := cmp.Diff(want, must(t, w.d, (*Driver).NodeGetInfo, &csi.NodeGetInfoRequest{}), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
