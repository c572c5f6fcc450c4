package driver

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// The instance beside external-resizer says what the plugin can do, and is ready at once. It runs no command and refuses the rest.
func TestWithoutTools(t *testing.T) {
	w := newWorld(t, withConfig(func(c *Config) { c.NoTools = true }))
	w.lvm.SetHook(refused)
	conn, _ := w.serve(t)
	w.d.Start(t.Context())
	identity, controller, node := csi.NewIdentityClient(conn), csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	for range 2 {
		if r, err := identity.Probe(t.Context(), &csi.ProbeRequest{}); err != nil || !r.GetReady().GetValue() {
			t.Errorf("ready: %v, %v", r, err)
		}
		for name, call := range map[string]func() error{
			"GetPluginInfo": func() error {
				_, err := identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
				return err
			},
			"GetPluginCapabilities": func() error {
				_, err := identity.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
				return err
			},
			"ControllerGetCapabilities": func() error {
				_, err := controller.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
				return err
			},
			"NodeGetCapabilities": func() error {
				_, err := node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
				return err
			},
			"NodeGetInfo": func() error {
				_, err := node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
				return err
			},
		} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, call := range []func() error{
			func() error {
				_, err := controller.CreateVolume(t.Context(), createRequest("pvc-1", block, gib))
				return err
			},
			func() error {
				_, err := controller.DeleteVolume(t.Context(), deleteRequest("vg0/pvc-1:35971be6"))
				return err
			},
			func() error {
				_, err := controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
				return err
			},
			func() error {
				_, err := node.NodeUnpublishVolume(t.Context(), unpublishRequest("vg0/pvc-1:35971be6", "/target"))
				return err
			},
			func() error {
				_, err := node.NodeExpandVolume(t.Context(), expandRequest("vg0/pvc-1:35971be6", "/target", gib))
				return err
			},
		} {
			wantCode(t, call(), codes.Unavailable, "has no tools")
		}
	}
	if got := w.lvm.Commands(); len(got) != 0 {
		t.Errorf("commands: %q", got)
	}
}
