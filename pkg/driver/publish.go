package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// publication is a NodePublishVolume request that has been understood.
type publication struct {
	access
	id              volumeID
	staging, target string
}

// NodePublishVolume makes a staged filesystem, or a raw block volume's device node, appear at the target path. It runs no lvm
// command for a volume that the driver knows and whose LV is active.
//
// Errors: InvalidArgument, NotFound; AlreadyExists when it is published there the other way (read-only or not);
// FailedPrecondition when it is not staged, when a single-writer volume has another target, and when another volume holds
// the target; Aborted.
func (d *Driver) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p := publication{staging: clean(req.GetStagingTargetPath()), target: clean(req.GetTargetPath())}
	switch {
	case req.GetVolumeId() == "":
		return nil, required("volume_id")
	case p.target == "":
		return nil, required("target_path")
	case req.GetVolumeCapability() == nil:
		return nil, required("volume_capability")
	}
	var err error
	if p.id, err = parseVolumeID(req.GetVolumeId()); err != nil {
		return nil, err
	}
	if p.access, err = parseAccess(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	p.readOnly = p.readOnly || req.GetReadonly()
	return work(ctx, d, p.id.vg, p.id.lv, func(ctx context.Context) (*csi.NodePublishVolumeResponse, error) {
		if err := d.publish(ctx, p); err != nil {
			return nil, fmt.Errorf("publishing volume %s: %w", p.id, err)
		}
		return &csi.NodePublishVolumeResponse{}, nil
	})
}

func (d *Driver) publish(ctx context.Context, p publication) error {
	dev, err := d.device(ctx, p.id)
	if err != nil {
		return err
	}
	if err := checkPath("target_path", p.target); err != nil {
		return err
	}
	if p.staging == "" {
		return preconditionf("staging_target_path is missing in the request; the volume must be staged first")
	}
	if err := checkPath("staging_target_path", p.staging); err != nil {
		return err
	}
	mounts, err := d.mounter.Mounts(ctx)
	if err != nil {
		return err
	}
	done, err := p.look(mounts, dev)
	if done || err != nil {
		return err
	}
	source := p.staging
	if p.fs == block {
		source = dev.Path
	}
	made, err := p.makeTarget()
	if err != nil {
		return err
	}
	if err := d.mounter.Bind(ctx, source, p.target, p.readOnly); err != nil {
		if made {
			err = errors.Join(err, os.Remove(p.target))
		}
		return err
	}
	return nil
}

// look holds a request against what is mounted. done means that it is published as asked already.
func (p publication) look(mounts []mounter.Mount, dev mounter.Device) (done bool, err error) {
	staged, elsewhere := false, ""
	readOnly := p.readOnly
	var at *mounter.Mount // the top one
	for i, m := range mounts {
		switch {
		case m.Path == p.target:
			at = &mounts[i]
		case m.DeviceID != dev.ID:
		case m.Path == p.staging:
			staged = true
			readOnly = readOnly || m.ReadOnly // what is mounted read-only is bound so too
		default:
			elsewhere = m.Path
		}
	}
	switch {
	case at != nil && at.DeviceID != dev.ID:
		return false, preconditionf("target_path %s holds another volume's device %s; unmount it", p.target, at.DeviceID)
	case at != nil && at.Block != (p.fs == block):
		return false, as(errExists, fmt.Errorf("the volume is published at %s in the other volume mode", p.target))
	case at != nil && at.ReadOnly != readOnly:
		return false, as(errExists, fmt.Errorf("the volume is published at %s with readonly %t; unpublish it first", p.target, at.ReadOnly))
	case at != nil:
		return true, nil
	case p.single && elsewhere != "":
		return false, preconditionf("the volume is for one pod (ReadWriteOncePod) and is published at %s", elsewhere)
	case p.fs != block && !staged:
		return false, preconditionf("the volume is not staged at %s; stage it first", p.staging)
	}
	return false, nil
}

// makeTarget makes what is mounted on: a directory, or for raw block a file. made is false when it was there already.
func (p publication) makeTarget() (made bool, err error) {
	info, err := os.Lstat(p.target)
	switch {
	case err == nil && p.fs == block && !info.Mode().IsRegular():
		return false, invalidf("target_path %s is no regular file, and the volume is raw block", p.target)
	case err == nil && p.fs != block && !info.IsDir():
		return false, invalidf("target_path %s is no directory, and the volume is a filesystem", p.target)
	case err == nil:
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(p.target), 0o750); err != nil {
		return false, err
	}
	if p.fs != block {
		return true, os.Mkdir(p.target, 0o750)
	}
	file, err := os.OpenFile(p.target, os.O_CREATE|os.O_EXCL, 0o660)
	if err != nil {
		return false, err
	}
	return true, file.Close()
}

// NodeUnpublishVolume undoes NodePublishVolume and removes the target. It asks LVM nothing and succeeds when the volume or
// the target is gone, or another volume is published there, which it leaves alone. Errors: InvalidArgument; FailedPrecondition while the mount is busy; Aborted.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := clean(req.GetTargetPath())
	switch {
	case req.GetVolumeId() == "":
		return nil, required("volume_id")
	case target == "":
		return nil, required("target_path")
	}
	id, _ := parseVolumeID(req.GetVolumeId())
	if err := checkPath("target_path", target); err != nil {
		return nil, err
	}
	return onNode(ctx, d, id, target, func(ctx context.Context) (*csi.NodeUnpublishVolumeResponse, error) {
		free, err := d.unmountAll(ctx, id, target)
		if err == nil && free {
			// Remove, not RemoveAll: should anything be in it, it is not ours.
			if err = os.Remove(target); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("unpublishing volume %s: %w", req.GetVolumeId(), err)
		}
		return &csi.NodeUnpublishVolumeResponse{}, nil
	})
}
