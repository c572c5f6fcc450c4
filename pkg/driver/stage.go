package driver

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// NodeStageVolume mounts a volume's filesystem at the staging path, or for raw block makes sure that its device is
// there. It runs no lvm command for a volume that the driver knows and whose LV is active, and it never formats.
//
// Errors: InvalidArgument, NotFound; FailedPrecondition for a device without a filesystem, a volume that is being deleted, and a
// path that another volume holds; Aborted; Unavailable when a PV is missing.
func (d *Driver) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	path := clean(req.GetStagingTargetPath())
	switch {
	case req.GetVolumeId() == "":
		return nil, required("volume_id")
	case path == "":
		return nil, required("staging_target_path")
	case req.GetVolumeCapability() == nil:
		return nil, required("volume_capability")
	}
	id, err := parseVolumeID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	a, err := parseAccess(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	return work(ctx, d, id.vg, id.lv, func(ctx context.Context) (*csi.NodeStageVolumeResponse, error) {
		dev, err := d.device(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := checkPath("staging_target_path", path); err != nil {
			return nil, err
		}
		if a.fs == block {
			return &csi.NodeStageVolumeResponse{}, nil
		}
		if err := d.stage(ctx, dev, a, path); err != nil {
			return nil, fmt.Errorf("staging volume %s: %w", id, err)
		}
		return &csi.NodeStageVolumeResponse{}, nil
	})
}

func (d *Driver) stage(ctx context.Context, dev mounter.Device, a access, path string) error {
	mounts, err := d.mounter.Mounts(ctx)
	if err != nil {
		return err
	}
	mounted := false
	for _, m := range slices.Backward(mounts) {
		switch {
		case m.Path == path && m.DeviceID != dev.ID:
			return preconditionf("staging_target_path %s holds another volume's device %s; unmount it", path, m.DeviceID)
		case m.Path == path && a.fs != "" && m.FSType != a.fs:
			return wrongFS(m.FSType, a.fs)
		case m.Path == path:
			return nil // staged already
		}
		mounted = mounted || m.DeviceID == dev.ID
	}
	found, err := d.mounter.Probe(ctx, dev)
	switch {
	case err != nil:
		return as(errUnavailable, fmt.Errorf("reading %s: %w", dev.Path, err))
	case found == "":
		return preconditionf("%s holds no filesystem; the driver formats only when it creates a volume, so that data which cannot be seen is not lost: "+
			"restore it, or delete the volume and let it be made anew", dev.Path)
	case a.fs != "" && found != a.fs:
		return wrongFS(found, a.fs)
	}
	if _, ok := minimumSize[found]; !ok {
		return preconditionf("%s holds %s, which this driver does not mount; use ext4, xfs or btrfs, or volumeMode Block", dev.Path, found)
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	ctx, cancel := d.detach(ctx)
	defer cancel()
	if !mounted {
		if err := d.mounter.Check(ctx, dev, found); err != nil {
			return err
		}
	}
	return d.mounter.Mount(ctx, dev, found, path, a.flags)
}

func wrongFS(found, asked string) error {
	return invalidf("volume_capability.mount.fs_type is %s and the volume holds %s; correct the PV's fsType", asked, found)
}

// NodeUnstageVolume undoes NodeStageVolume. It asks LVM nothing and succeeds when the volume is gone: kubelet would retry for
// ever. Another volume that is staged there it leaves alone. Errors: InvalidArgument; FailedPrecondition while the mount is busy; Aborted.
func (d *Driver) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	path := clean(req.GetStagingTargetPath())
	switch {
	case req.GetVolumeId() == "":
		return nil, required("volume_id")
	case path == "":
		return nil, required("staging_target_path")
	}
	id, _ := parseVolumeID(req.GetVolumeId())
	if err := checkPath("staging_target_path", path); err != nil {
		return nil, err
	}
	return onNode(ctx, d, id, path, func(ctx context.Context) (*csi.NodeUnstageVolumeResponse, error) {
		if _, err := d.unmountAll(ctx, id, path); err != nil {
			return nil, fmt.Errorf("unstaging volume %s: %w", req.GetVolumeId(), err)
		}
		return &csi.NodeUnstageVolumeResponse{}, nil
	})
}
