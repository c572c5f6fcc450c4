package driver

import (
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// class is what a StorageClass's parameters say.
type class struct {
	vg          string
	mkfsOptions []string
	erase       mounter.Erase
}

// parseClass reads StorageClass parameters. An unknown key is an error: a misspelt one would otherwise be a
// promise not kept. The keys that external-provisioner keeps for itself pass, since
// GetCapacity gets parameters unstripped.
func (d *Driver) parseClass(parameters map[string]string) (class, error) {
	c := class{vg: d.config.DefaultVG, erase: mounter.EraseZero}
	for key, value := range parameters {
		switch key {
		case "volumeGroup":
			c.vg = value
		case "layout":
			if value != "linear" {
				return class{}, invalidf("parameter layout is %q; this release knows only linear", value)
			}
		case "mkfsOptions":
			c.mkfsOptions = strings.Fields(value)
		case "erase":
			c.erase = mounter.Erase(value)
			if c.erase != mounter.EraseZero && c.erase != mounter.EraseDiscard && c.erase != mounter.EraseNone {
				return class{}, invalidf("parameter erase is %q; choose zero, discard or none", value)
			}
		default:
			if !strings.HasPrefix(key, "csi.storage.k8s.io/") {
				return class{}, invalidf("parameter %q is unknown; the parameters are volumeGroup, layout, mkfsOptions, erase and csi.storage.k8s.io/fstype", key)
			}
		}
	}
	if c.vg == "" {
		return class{}, invalidf("parameter volumeGroup is missing, and the driver was started without --default-volume-group")
	}
	if err := lvm.CheckVGName(c.vg); err != nil {
		return class{}, invalidf("parameter volumeGroup: %w", err)
	}
	return c, nil
}
