package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// DeleteVolume erases a volume as its class said and removes its LV. An ID of no volume is a success; whether
// there is none only LVM says.
//
// Errors: FailedPrecondition for what is in use, an origin of thick snapshots, not this driver's or another
// node's: nothing has changed then. Aborted while a call is under way. Unavailable when a PV is missing or an outcome is unknown.
func (d *Driver) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, required("volume_id")
	}
	id, err := parseVolumeID(req.GetVolumeId())
	if err != nil {
		return &csi.DeleteVolumeResponse{}, nil
	}
	return work(ctx, d, id.vg, id.lv, func(ctx context.Context) (*csi.DeleteVolumeResponse, error) {
		if err := d.remove(ctx, id); err != nil {
			return nil, fmt.Errorf("deleting volume %s: %w", id, err)
		}
		return &csi.DeleteVolumeResponse{}, nil
	})
}

// How often remove looks again at a device that something holds open for a moment, as udev does, and the pause.
const (
	removeTries = 3
	removePause = 200 * time.Millisecond
)

// remove erases and removes the LV of an ID. What it has erased it does not erase again: that takes long, and only the removal has
// to be repeated. The caller holds the lock.
func (d *Driver) remove(ctx context.Context, id volumeID) error {
	var erased string
	for try := 1; ; try++ {
		err := d.tryRemove(ctx, id, &erased)
		if !errors.Is(err, lvm.ErrInUse) || try == removeTries {
			return err
		}
		select {
		case <-time.After(removePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryRemove is one attempt: a report, for a volume to be erased one change of tags, and one lvremove. It fails with
// lvm.ErrInUse when something that is no mount holds the device open, perhaps only for a moment. erased is the UUID of the
// device that this call has erased, or "".
func (d *Driver) tryRemove(ctx context.Context, id volumeID, erased *string) error {
	vg, lv, r, err := d.find(ctx, id)
	switch {
	case id.byHand() && (err == nil || errors.Is(err, lvm.ErrNotFound) || errors.Is(err, lvm.ErrNoVG)):
		// Also where there is no such LV: without node affinity every node is asked, and success of any would take the PV away.
		return preconditionf("logical volume %s/%s is not this driver's to delete; set the PV's persistentVolumeReclaimPolicy to Retain", id.vg, id.lv)
	case errors.Is(err, lvm.ErrNotFound):
		d.known.forget(id)
		return nil
	case errors.Is(err, errNotFound):
		return as(errPrecondition, fmt.Errorf("%w; nothing was deleted", err))
	case err != nil:
		return err
	}
	if err := removable(vg, lv); err != nil {
		return err
	}
	if lv.Suspended { // a killed lvm left it so, and what that left is repaired before any change
		if _, err := d.activeDevice(ctx, id); err != nil {
			return as(errUnavailable, err)
		}
	}
	dev, err := d.mounter.Device(ctx, id.vg, id.lv)
	active := err == nil
	if err != nil && !errors.Is(err, mounter.ErrInactive) {
		return err
	}
	if active {
		if err := d.unused(ctx, dev, lv); err != nil {
			return err
		}
	}
	d.known.forget(id)
	ctx, cancel := d.detach(ctx)
	defer cancel()
	done := *erased != "" && *erased == lvm.MapperUUID(vg.UUID, lv.UUID)
	if r.erase != mounter.EraseNone && r.state != creating && !done { // what is being created holds nobody's data
		dev, err := d.eraseVolume(ctx, id, r)
		if err != nil {
			return err
		}
		*erased, active = dev.UUID, true
	}
	if err := d.lvm.Remove(ctx, id.vg, id.lv, d.tags.id(r.id)); err != nil {
		return err
	}
	return d.removed(ctx, id, active)
}

// removed makes sure that a successful lvremove has removed: it succeeds too when it selected nothing. It takes the
// device of an active LV away only with the LV; of an inactive one LVM is asked.
func (d *Driver) removed(ctx context.Context, id volumeID, active bool) error {
	if active {
		if _, err := d.mounter.Device(ctx, id.vg, id.lv); errors.Is(err, mounter.ErrInactive) {
			return nil
		}
	} else if _, _, _, err := d.find(ctx, id); errors.Is(err, lvm.ErrNotFound) {
		return nil
	}
	return as(lvm.ErrInUse, errors.New("it was opened, or became the origin of a snapshot, while it was being deleted"))
}

// unused proves that nothing has the device open: by a mount, by the open count of LVM's report, and by
// opening it exclusively. Errors: errPrecondition when mounted, lvm.ErrInUse otherwise.
func (d *Driver) unused(ctx context.Context, dev mounter.Device, lv *lvm.LV) error {
	mounts, err := d.mounter.Mounts(ctx)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.DeviceID == dev.ID {
			return preconditionf("it is mounted at %s; unmount it first", m.Path)
		}
	}
	if lv.Open {
		return as(lvm.ErrInUse, fmt.Errorf("%s is open on this node; find who holds it with fuser or lsof, and dmsetup ls --tree", dev.Path))
	}
	claim, err := d.mounter.Claim(ctx, dev)
	if err != nil && !errors.Is(err, mounter.ErrInUse) {
		return as(errUnavailable, fmt.Errorf("opening %s: %w", dev.Path, err))
	}
	if err != nil {
		return as(lvm.ErrInUse, fmt.Errorf("%s is held on this node; find who holds it with fuser or lsof, and dmsetup ls --tree: %w", dev.Path, err))
	}
	return claim.Close()
}

// removable says why an LV must stay, or returns nil.
func removable(vg *lvm.VG, lv *lvm.LV) error {
	switch {
	case vg.Partial:
		return as(errUnavailable, fmt.Errorf("volume group %s misses a physical volume; bring its disk back, or see vgreduce(8) --removemissing", vg.Name))
	case vg.Exported:
		return exported(vg)
	case lv.IsThickOrigin():
		return preconditionf("%s/%s is the origin of thick snapshots, which would go with it; remove them first (lvs -o name,origin %s)", vg.Name, lv.Name, vg.Name)
	case lv.Moving:
		return beingMoved(vg, lv)
	}
	return nil
}

func exported(vg *lvm.VG) error {
	return as(errUnavailable, fmt.Errorf("volume group %s is exported; run vgimport(8) on this node", vg.Name))
}

func beingMoved(vg *lvm.VG, lv *lvm.LV) error {
	return as(errBusy, fmt.Errorf("%s/%s is being moved between disks (pvmove); ask again when that has ended", vg.Name, lv.Name))
}

// eraseVolume marks a volume as being deleted and makes its bytes unreadable. It can be stopped and begun again.
func (d *Driver) eraseVolume(ctx context.Context, id volumeID, r record) (mounter.Device, error) {
	if r.state != deleting {
		err := d.lvm.Retag(ctx, id.vg, id.lv, d.tags.state(deleting), "")
		// A VG whose metadata area is full takes no tag. The volume is erased all the same: the first thing that goes is its
		// filesystem, so it cannot be mounted by mistake afterwards.
		if err != nil && !errors.Is(err, lvm.ErrNoSpace) {
			return mounter.Device{}, fmt.Errorf("marking as being deleted: %w", err)
		}
	}
	dev, err := d.activeDevice(ctx, id)
	if err != nil {
		return mounter.Device{}, err
	}
	ctx, cancel := endingWith(ctx, d.erasing)
	defer cancel()
	if err := d.mounter.Erase(ctx, dev, r.erase); err != nil {
		if errors.Is(err, mounter.ErrInUse) {
			return mounter.Device{}, as(lvm.ErrInUse, err)
		}
		return mounter.Device{}, as(errUnavailable, fmt.Errorf("erasing: %w", err))
	}
	return dev, nil
}
