package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/capacity"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// volumePlan is a CreateVolume request that has been understood.
type volumePlan struct {
	class
	sizes
	id     volumeID
	record record
}

// CreateVolume makes a linear LV and, unless the volume is raw block, the filesystem on it, in one lvm command for
// block and two for a filesystem. It is the only place that formats.
//
// Errors: InvalidArgument, OutOfRange, AlreadyExists; ResourceExhausted when this node cannot have the volume, so that
// the pod is scheduled again; Aborted while a call for the same volume is under way; Unavailable when the outcome is
// unknown. With any code but the last two (and Canceled, DeadlineExceeded) nothing is left behind.
func (d *Driver) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	plan, err := d.planVolume(req)
	if err != nil {
		return nil, err
	}
	resp, err := work(ctx, d, plan.id.vg, plan.id.lv, func(ctx context.Context) (*csi.CreateVolumeResponse, error) {
		dev, err := d.create(ctx, plan)
		if err != nil {
			return nil, d.final(ctx, plan, err)
		}
		d.known.add(plan.id, dev.UUID)
		return &csi.CreateVolumeResponse{Volume: d.volume(plan.record.id, dev.Size)}, nil
	})
	return resp, d.refuse(ctx, plan.id.vg, err)
}

// planVolume validates a request.
func (d *Driver) planVolume(req *csi.CreateVolumeRequest) (volumePlan, error) {
	if req.GetName() == "" {
		return volumePlan{}, required("name")
	}
	fs, err := parseAccesses(req.GetVolumeCapabilities())
	if err != nil {
		return volumePlan{}, err
	}
	c, err := d.parseClass(req.GetParameters())
	if err != nil {
		return volumePlan{}, err
	}
	if fs == block && len(c.mkfsOptions) > 0 {
		return volumePlan{}, invalidf("parameter mkfsOptions is set and the volume is raw block; use a StorageClass without it")
	}
	if req.GetVolumeContentSource() != nil {
		return volumePlan{}, invalidf("volume_content_source: this release makes no volumes from snapshots or other volumes")
	}
	if len(req.GetMutableParameters()) > 0 {
		return volumePlan{}, invalidf("mutable_parameters: this release has none; remove the VolumeAttributesClass")
	}
	s, err := parseSize(req.GetCapacityRange(), fs)
	if err != nil {
		return volumePlan{}, err
	}
	if err := d.checkTopology(req.GetAccessibilityRequirements()); err != nil {
		return volumePlan{}, err
	}
	id := volumeID{vg: c.vg, lv: lvName(req.GetName()), node: d.node}
	r := record{id: id.String(), name: req.GetName(), fs: fs, erase: c.erase}
	for _, tag := range d.tags.write(r) {
		if lvm.CheckTag(tag) != nil { // all its bytes are fit
			return volumePlan{}, invalidf("name is too long for an LVM tag (%d bytes); CSI allows 128", len(req.GetName()))
		}
	}
	return volumePlan{class: c, sizes: s, id: id, record: r}, nil
}

// checkTopology refuses a volume that must be on other nodes. No requirement means this node.
func (d *Driver) checkTopology(r *csi.TopologyRequirement) error {
	if len(r.GetRequisite()) == 0 {
		return nil
	}
	for _, t := range r.GetRequisite() {
		if t.GetSegments()[d.topologyKey()] == d.topologyValue() {
			return nil
		}
	}
	return as(errExhausted, fmt.Errorf("accessibility_requirements name other nodes than this one (%s=%s)", d.topologyKey(), d.topologyValue()))
}

// create makes the volume of a plan, or finishes or finds the one that an earlier call began. It returns its device.
func (d *Driver) create(ctx context.Context, plan volumePlan) (mounter.Device, error) {
	r := plan.record
	if r.fs != block {
		r.state = creating
	}
	err := d.allocate(ctx, plan, d.tags.write(r))
	if errors.Is(err, lvm.ErrExists) {
		return d.adopt(ctx, plan)
	}
	if err != nil {
		return mounter.Device{}, fmt.Errorf("creating volume %s: %w", plan.id, err)
	}
	return d.finish(ctx, plan, r.state, "")
}

// allocate makes the LV of a plan.
func (d *Driver) allocate(ctx context.Context, plan volumePlan, tags []string) error {
	defer d.claims.add(plan.id.vg, plan.id.lv, plan.want)()
	if d.restricted(plan.id.vg) {
		release, err := d.turns.take(ctx, plan.id.vg)
		if err != nil {
			return err
		}
		defer release()
	}
	size, err := d.admit(ctx, plan)
	if err != nil {
		return err
	}
	return d.lvm.Create(ctx, lvm.NewLV{VG: plan.id.vg, Name: plan.id.lv, Size: size, Tags: tags})
}

// admit says what size to ask for. It costs a report only where LVM would not itself refuse what must
// be refused: a limit, a reserve, a system VG.
func (d *Driver) admit(ctx context.Context, plan volumePlan) (int64, error) {
	if plan.limit == 0 && !d.restricted(plan.id.vg) {
		return plan.want, nil
	}
	vg, err := d.lvm.Report(ctx, plan.id.vg)
	if err != nil {
		return 0, err
	}
	if _, err := vg.LV(plan.id.lv); err == nil {
		return plan.want, nil // it is made already: lvcreate says so, and takes no room
	}
	size, err := plan.round(vg.ExtentSize)
	if err != nil {
		return 0, err
	}
	if room := d.roomOf(vg); size > room.Maximum {
		return 0, noRoom(plan.id.vg, size, room)
	}
	return size, nil
}

// noRoom is the refusal of size bytes in a VG that has room.
func noRoom(vg string, size int64, room capacity.Room) error {
	reason := room.Reason
	if reason == "" {
		reason = fmt.Sprintf("volume group %s has %d bytes free", vg, room.Maximum)
	}
	return as(errExhausted, fmt.Errorf("%w: %d bytes are asked for and %s", lvm.ErrNoSpace, size, reason))
}

// finish brings a volume whose LV exists to what its caller asked for, and returns its device. No caller has had it
// before the creating tag is gone, so it may be formatted again. uuid is the LV's, or "" when it has just been made.
func (d *Driver) finish(ctx context.Context, plan volumePlan, s state, uuid string) (mounter.Device, error) {
	var none mounter.Device
	ctx, cancel := d.detach(ctx)
	defer cancel()
	dev, err := d.activeDevice(ctx, plan.id)
	switch {
	case err != nil:
		return none, as(errUnavailable, fmt.Errorf("finding the device of volume %s: %w", plan.id, err))
	case uuid != "" && dev.UUID != uuid:
		return none, notTheLV(dev, uuid)
	case dev.Size < plan.least:
		return none, as(errUnavailable, fmt.Errorf("%s has %d bytes although LVM made it of %d or more; ask again", dev.Path, dev.Size, plan.least))
	case s == ready:
		return dev, nil
	}
	if err := d.mounter.Format(ctx, dev, plan.record.fs, plan.mkfsOptions); err != nil {
		if errors.Is(err, mounter.ErrBadOptions) {
			return none, invalidf("parameter mkfsOptions: %w", err)
		}
		return none, fmt.Errorf("formatting volume %s: %w", plan.id, err)
	}
	if err := d.lvm.Retag(ctx, plan.id.vg, plan.id.lv, "", d.tags.state(creating)); err != nil {
		return none, as(errUnavailable, fmt.Errorf("committing volume %s: %w", plan.id, err))
	}
	return dev, nil
}

// adopt decides what an LV is that has the volume's name already.
func (d *Driver) adopt(ctx context.Context, plan volumePlan) (mounter.Device, error) {
	var none mounter.Device
	vg, lv, r, err := d.find(ctx, plan.id)
	switch {
	case errors.Is(err, errNotFound):
		return none, as(errExists, fmt.Errorf("logical volume %s/%s exists and is not this driver's; rename it to make room for volume %q", plan.id.vg, plan.id.lv, plan.record.name))
	case err != nil: // gone again, or unreadable
		return none, as(errUnavailable, fmt.Errorf("looking at the logical volume that is there already: %w", err))
	case r.name != plan.record.name:
		return none, as(errExists, fmt.Errorf("logical volume %s/%s is volume %q", plan.id.vg, plan.id.lv, r.name))
	case r.state == deleting, r.state == creating && (r.fs != plan.record.fs || r.erase != plan.erase || !plan.fit(lv.Size)):
		// Nobody has it, or will have it again: make room and begin anew.
		if err := d.remove(ctx, plan.id); err != nil {
			return none, as(errUnavailable, fmt.Errorf("removing what is left of an earlier volume %q: %w", plan.record.name, err))
		}
		return d.create(ctx, plan)
	case r.fs != plan.record.fs:
		return none, as(errExists, fmt.Errorf("volume %q exists and holds %s, not %s", r.name, r.fs, plan.record.fs))
	case r.erase != plan.erase:
		return none, as(errExists, fmt.Errorf("volume %q exists and was made with erase %s, not %s", r.name, r.erase, plan.erase))
	case !plan.fit(lv.Size):
		return none, as(errExists, fmt.Errorf("volume %q exists with %d bytes, which is not within capacity_range (required_bytes %d, limit_bytes %d)",
			r.name, lv.Size, plan.least, plan.limit))
	}
	return d.finish(ctx, plan, r.state, lvm.MapperUUID(vg.UUID, lv.UUID))
}

// final turns an error of create into the one to answer. external-provisioner forgets the volume when a
// code is final, so before one is returned what was begun is removed; where that cannot be
// done the code is Unavailable and the same node is asked again.
func (d *Driver) final(ctx context.Context, plan volumePlan, err error) error {
	for _, pending := range []error{errUnavailable, errBusy, lvm.ErrUnknown, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, pending) {
			return err
		}
	}
	if errors.Is(err, errExists) {
		return err
	}
	for _, full := range []error{lvm.ErrNoSpace, lvm.ErrNoVG, lvm.ErrUnavailable} {
		if errors.Is(err, full) {
			err = as(errExhausted, err)
		}
	}
	if errors.Is(err, lvm.ErrNoSpace) || errors.Is(err, lvm.ErrNoVG) {
		return err // LVM looks for the name before it looks for space: nothing is there
	}
	ctx, cancel := d.detach(ctx)
	defer cancel()
	vg, _, r, missing := d.find(ctx, plan.id)
	switch {
	case errors.Is(missing, lvm.ErrNotFound), errors.Is(missing, errNotFound):
		// LVM's own words for an exported or read-only VG have no kind.
		if reason := d.roomOf(vg).Reason; reason != "" && !errors.Is(err, errInvalid) && !errors.Is(err, errRange) {
			return as(errExhausted, fmt.Errorf("%w (%s)", err, reason))
		}
		return err
	case missing == nil && r.state == creating:
		missing = d.remove(ctx, plan.id)
	case missing == nil: // raw block is whole once it exists: the next call finds it
		missing = errors.New("it exists all the same; ask again")
	}
	if missing != nil {
		return as(errUnavailable, fmt.Errorf("%w; and what was begun could not be removed: %w", err, missing))
	}
	return err
}

// volume is a volume as CSI describes it.
func (d *Driver) volume(id string, size int64) *csi.Volume {
	return &csi.Volume{VolumeId: id, CapacityBytes: size,
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{d.topologyKey(): d.topologyValue()}}}}
}
