package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// NodeExpandVolume extends the LV by one lvm command and grows the mounted filesystem. Each half is skipped
// when it is done already.
//
// Errors: InvalidArgument, NotFound; OutOfRange when the VG has no room or no size fits (kubelet then shows it on the
// PVC, and the request can be lowered); FailedPrecondition for what this driver did not make; Aborted; Unavailable.
func (d *Driver) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
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
	size, limit := req.GetCapacityRange().GetRequiredBytes(), req.GetCapacityRange().GetLimitBytes()
	if err := checkRange(size, limit); err != nil {
		return nil, err
	}
	if size > maxSize {
		return nil, rangef("capacity_range.required_bytes %d is more than any volume group holds", size)
	}
	return work(ctx, d, id.vg, id.lv, func(ctx context.Context) (*csi.NodeExpandVolumeResponse, error) {
		dev, err := d.device(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := checkPath("volume_path", path); err != nil {
			return nil, err
		}
		size, err := d.expand(ctx, id, dev, expansion{path: path, size: size, limit: limit})
		if err != nil {
			return nil, fmt.Errorf("expanding volume %s: %w", id, err)
		}
		return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
	})
}

// expansion is what a NodeExpandVolume request asks for. Sizes are bytes; 0 is not given.
type expansion struct {
	path        string
	size, limit int64
}

func (d *Driver) expand(ctx context.Context, id volumeID, dev mounter.Device, e expansion) (int64, error) {
	if id.byHand() {
		return 0, preconditionf("this driver did not make %s/%s and does not resize it; use lvextend(8) --resizefs", id.vg, id.lv)
	}
	mounts, err := d.mountsAt(ctx, e.path)
	if err != nil {
		return 0, err
	}
	if len(mounts) == 0 || mounts[len(mounts)-1].DeviceID != dev.ID {
		return 0, preconditionf("the volume is not mounted at volume_path %s; stage it first", e.path)
	}
	m := mounts[len(mounts)-1]
	if e.limit != 0 && dev.Size > e.limit {
		return 0, rangef("the volume has %d bytes, more than capacity_range.limit_bytes %d", dev.Size, e.limit)
	}
	if dev.Size < e.size {
		if err := d.extend(ctx, id, e); err != nil {
			return 0, err
		}
		if dev, err = d.mounter.Device(ctx, id.vg, id.lv); err != nil {
			return 0, err
		}
		if dev.Size < e.size {
			return 0, as(errUnavailable, fmt.Errorf("%s has %d bytes although LVM extended it to %d; ask again", dev.Path, dev.Size, e.size))
		}
	}
	if m.Block {
		return dev.Size, nil
	}
	ctx, cancel := d.detach(ctx)
	defer cancel()
	path, err := d.writablePath(ctx, m)
	if err != nil {
		return 0, err
	}
	if err := d.mounter.Grow(ctx, dev, m.FSType, path); err != nil {
		return 0, err
	}
	return dev.Size, nil
}

// writablePath is where the filesystem of a mount can be grown: the kernel does not grow it through a mount point that is
// read-only, as one published read-only is, and the staging path is another one of the same filesystem.
func (d *Driver) writablePath(ctx context.Context, m mounter.Mount) (string, error) {
	if !m.ReadOnly {
		return m.Path, nil
	}
	mounts, err := d.mounter.Mounts(ctx)
	if err != nil {
		return "", err
	}
	covered := map[string]bool{}
	for _, other := range slices.Backward(mounts) {
		if other.DeviceID == m.DeviceID && !other.Block && !other.ReadOnly && !covered[other.Path] {
			return other.Path, nil
		}
		covered[other.Path] = true
	}
	return m.Path, nil
}

// extend extends the LV, after a report where LVM would not itself refuse what must be refused.
func (d *Driver) extend(ctx context.Context, id volumeID, e expansion) error {
	size := e.size
	defer d.claims.add(id.vg, id.lv, size)()
	if d.restricted(id.vg) {
		release, err := d.turns.take(ctx, id.vg)
		if err != nil {
			return err
		}
		defer release()
	}
	if e.limit != 0 || d.restricted(id.vg) {
		vg, lv, _, err := d.find(ctx, id)
		if err != nil {
			return err
		}
		if size, err = (sizes{want: e.size, least: e.size, limit: e.limit}).round(vg.ExtentSize); err != nil {
			return err
		}
		if room := d.roomOf(vg); size-lv.Size > room.Maximum && !vg.Partial {
			return as(errRange, noRoom(id.vg, size-lv.Size, room))
		}
	}
	err := d.lvm.Extend(ctx, id.vg, id.lv, size)
	switch {
	case errors.Is(err, lvm.ErrNotLarger):
		// The device is smaller all the same: an earlier lvextend was killed after it had written the metadata.
		return d.lvm.Refresh(ctx, id.vg, id.lv)
	case errors.Is(err, lvm.ErrNoSpace):
		return as(errRange, fmt.Errorf("%w; lower the request, or free space in volume group %s", err, id.vg))
	case err != nil:
		d.known.forget(id)
		switch vg, lv, _, again := d.find(ctx, id); {
		case again != nil:
			return again // it tells more: absent, no longer ours, ...
		case lv.Moving:
			return fmt.Errorf("%w: %w", beingMoved(vg, lv), err)
		}
	}
	return err
}
