package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// NodeGetVolumeStats measures a mounted volume. It starts no process.
// Errors: InvalidArgument; NotFound when the volume is not at that path; Unavailable when its device is suspended.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	path := clean(req.GetVolumePath())
	switch {
	case req.GetVolumeId() == "":
		return nil, required("volume_id")
	case path == "":
		return nil, required("volume_path")
	}
	id, err := parseVolumeID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	mounts, err := d.mountsAt(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(mounts) == 0 {
		return nil, notFoundf("volume %s: nothing is mounted at volume_path %s", id, path)
	}
	dev, err := d.mounter.Device(ctx, id.vg, id.lv)
	inactive := errors.Is(err, mounter.ErrInactive)
	if err != nil && !inactive {
		return nil, fmt.Errorf("measuring volume %s: %w", id, err)
	}
	m := mounts[len(mounts)-1]
	if inactive || m.DeviceID != dev.ID {
		return nil, notFoundf("volume %s: another volume's device is mounted at volume_path %s", id, path)
	}
	if m.Block {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: dev.Size}}}, nil
	}
	u, err := d.mounter.Usage(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("measuring volume %s: %w", id, err)
	}
	usage := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: u.Bytes, Used: u.BytesUsed, Available: u.BytesAvailable}}
	if u.Inodes > 0 { // btrfs has no fixed number
		usage = append(usage, &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Total: u.Inodes, Used: u.InodesUsed, Available: u.InodesAvailable})
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}
