package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// volumeID is a CSI volume ID: "<vg>/<lv>:<node>", or "<vg>/<lv>" in a PV written by hand over an LV
// that the driver did not make. ':' and '/' are legal in LVM tags and in no LVM name.
type volumeID struct {
	vg, lv string
	node   string // nodeHash of the node that made it; "" in one written by hand
}

func (id volumeID) String() string {
	if id.node == "" {
		return id.vg + "/" + id.lv
	}
	return id.vg + "/" + id.lv + ":" + id.node
}

// byHand reports whether the ID is one that no driver gives out.
func (id volumeID) byHand() bool { return id.node == "" }

// parseVolumeID reads an ID. One that LVM could not have is an ID of no volume: errNotFound. The names in IDs that drivers make are
// held to our limits, those in IDs written by hand to LVM's.
func parseVolumeID(s string) (volumeID, error) {
	path, node, full := strings.Cut(s, ":")
	vg, lv, ok := strings.Cut(path, "/")
	id := volumeID{vg: vg, lv: lv, node: node}
	names := lvm.CheckForeign(vg, lv)
	if full {
		names = errors.Join(lvm.CheckVGName(vg), lvm.CheckLVName(lv))
	}
	if !ok || full && !isNodeHash(node) || names != nil {
		return volumeID{}, notFoundf("volume %q: there is none of such an ID; it is <volume group>/<logical volume>:<8 hex digits>", s)
	}
	return id, nil
}

// nodeHash is the short form of a node ID in volume IDs: 8 hex digits.
func nodeHash(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return hex.EncodeToString(sum[:4])
}

func isNodeHash(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 8 && strings.ToLower(s) == s
}

// lvName is the name of the LV for a CSI name: the CSI name itself where LVM takes it. Names that end in
// ".in" and ".out" are kept for volumes on the move between nodes.
func lvName(csiName string) string {
	if lvm.CheckLVName(csiName) == nil && !strings.HasSuffix(csiName, ".in") && !strings.HasSuffix(csiName, ".out") {
		return csiName
	}
	sum := sha256.Sum256([]byte(csiName))
	return "csi-" + hex.EncodeToString(sum[:16])
}
