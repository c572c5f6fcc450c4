package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// known holds the IDs of the volumes that may be mounted, so that mounting asks LVM nothing. What is
// not there has to be looked up; it can be lost and only costs reports.
//
// An administrator may remove an LV and make another of its name, so each ID has the UUID of its LV (lvm.MapperUUID), to
// be held against that of the device.
//
// An ID is written only under the lock of its LV, except by remember, which
// leaves alone what such a call has written: until settle, a forgotten ID stays, with "".
type known struct {
	mu         sync.Mutex
	uuids      map[string]string // by ID
	remembered bool
}

// uuid is that of the LV of an ID; "" when the ID is not known.
func (k *known) uuid(id string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.uuids[id]
}

func (k *known) add(id volumeID, uuid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uuids[id.String()] = uuid
}

// forget drops an ID, and with it the one that a PV written by hand over the same LV has.
func (k *known) forget(id volumeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range []string{id.String(), volumeID{vg: id.vg, lv: id.lv}.String()} {
		if k.remembered {
			delete(k.uuids, id)
		} else {
			k.uuids[id] = ""
		}
	}
}

// remember adds the IDs that the first report of a VG after the start has, with their UUIDs.
func (k *known) remember(uuids map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, uuid := range uuids {
		if _, touched := k.uuids[id]; !touched {
			k.uuids[id] = uuid
		}
	}
}

// settle says that remember has ended.
func (k *known) settle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remembered = true
	maps.DeleteFunc(k.uuids, func(_, uuid string) bool { return uuid == "" })
}

// find looks up the LV of an ID and its record. Errors: lvm.ErrNotFound when LVM positively lacks it;
// errNotFound when the LV is there and is not this volume; lvm's when the VG cannot be read.
func (d *Driver) find(ctx context.Context, id volumeID) (*lvm.VG, *lvm.LV, record, error) {
	vg, err := d.lvm.Report(ctx, id.vg)
	if errors.Is(err, lvm.ErrForeign) {
		err = fmt.Errorf("%w; lvmsystemid(7) says how this host takes it over", err)
	}
	if err != nil {
		return nil, nil, record{}, d.elsewhere(id, fmt.Errorf("looking up volume %s: %w", id, err))
	}
	lv, err := vg.LV(id.lv)
	if err != nil {
		return vg, nil, record{}, d.elsewhere(id, err)
	}
	r, ok := d.tags.read(lv)
	if id.byHand() {
		return vg, lv, r, nil
	}
	if !ok || r.id != id.String() {
		return vg, lv, record{}, d.elsewhere(id, notFoundf("volume %s: logical volume %s/%s is there but does not carry that ID in its tags; "+
			"to use it as it is, write a PV with volumeHandle %s/%s", id, id.vg, id.lv, id.vg, id.lv))
	}
	return vg, lv, r, nil
}

// elsewhere explains why an ID is not here when it names another node. While LVM cannot be read that is not known.
func (d *Driver) elsewhere(id volumeID, err error) error {
	absent := errors.Is(err, lvm.ErrNotFound) || errors.Is(err, lvm.ErrNoVG) || errors.Is(err, errNotFound)
	if id.byHand() || d.ours(id) || !absent {
		return err
	}
	return notFoundf("volume %s was made on another node and is not on this one (%s)", id, d.config.NodeID)
}

// mountable makes sure that an ID is of a volume that may be mounted here, and returns the UUID of its LV. It asks LVM only
// about IDs that it does not know. The caller holds the lock.
func (d *Driver) mountable(ctx context.Context, id volumeID) (uuid string, err error) {
	if uuid := d.known.uuid(id.String()); uuid != "" {
		return uuid, nil
	}
	vg, lv, r, err := d.find(ctx, id)
	switch {
	case err != nil:
		return "", err
	case r.state == creating:
		return "", as(errUnavailable, fmt.Errorf("volume %s is still being created; CreateVolume has not returned it", id))
	case r.state == deleting:
		return "", preconditionf("volume %s is being deleted and partly erased; it cannot be used again", id)
	case vg.Exported:
		return "", exported(vg)
	case lv.IsPartial():
		return "", as(errUnavailable, fmt.Errorf("volume %s: a physical volume under it is missing; bring its disk back", id))
	}
	uuid = lvm.MapperUUID(vg.UUID, lv.UUID)
	d.known.add(id, uuid)
	return uuid, nil
}

// device finds the device of a volume that may be mounted here, and activates its LV if need be.
// The caller holds the lock.
func (d *Driver) device(ctx context.Context, id volumeID) (mounter.Device, error) {
	uuid, err := d.mountable(ctx, id)
	if err != nil {
		return mounter.Device{}, err
	}
	dev, err := d.activeDevice(ctx, id)
	if err == nil && dev.UUID == uuid {
		return dev, nil
	}
	d.known.forget(id)
	uuid, again := d.mountable(ctx, id)
	switch {
	case again != nil:
		return mounter.Device{}, again // it tells more: absent, partial, another LV of that name, ...
	case err == nil && dev.UUID != uuid:
		err = notTheLV(dev, uuid)
	}
	return dev, err
}

// notTheLV is the error of a device that has the name of an LV and is not its.
func notTheLV(dev mounter.Device, uuid string) error {
	return as(errUnavailable, fmt.Errorf("%s is not the device of the logical volume of that name: its UUID is %s, not %s; "+
		"see dmsetup(8) and deactivate it", dev.Path, dev.UUID, uuid))
}

// activeDevice finds the device of an LV, and activates the LV when it is inactive, as after a reboot. A device that is suspended
// may be what a killed lvm left, which is repaired; one that somebody suspended for a purpose stays so.
func (d *Driver) activeDevice(ctx context.Context, id volumeID) (mounter.Device, error) {
	dev, err := d.mounter.Device(ctx, id.vg, id.lv)
	switch {
	case errors.Is(err, mounter.ErrInactive):
		err = d.lvm.Activate(ctx, id.vg, id.lv)
	case errors.Is(err, mounter.ErrSuspended):
		err = d.lvm.Repair(ctx, id.vg)
	default:
		return dev, err
	}
	if err != nil {
		return mounter.Device{}, fmt.Errorf("activating volume %s: %w", id, err)
	}
	return d.mounter.Device(ctx, id.vg, id.lv)
}

// volumes are the LVs of a VG that are volumes, with their records. A copy of a VG (vgimportclone(8)) carries the tags of the
// original: such an LV is none, for its ID is that of another.
func (d *Driver) volumes(vg *lvm.VG) iter.Seq2[*lvm.LV, record] {
	return func(yield func(*lvm.LV, record) bool) {
		for i := range vg.LVs {
			lv := &vg.LVs[i]
			r, ok := d.tags.read(lv)
			id, err := parseVolumeID(r.id)
			if ok && err == nil && id.vg == vg.Name && id.lv == lv.Name && !yield(lv, r) {
				return
			}
		}
	}
}
