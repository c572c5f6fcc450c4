package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/capacity"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var all []*csi.ControllerServiceCapability
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		all = append(all, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

// capacityTimeout bounds GetCapacity: a VG that hangs must not keep the other VGs' figures from being published.
const capacityTimeout = 8 * time.Second

// GetCapacity tells what a VG has for volumes of a class. What cannot be had, for whatever reason, is zero and never an error:
// an error would leave the last figure published. Only parameters that no volume could be made with are InvalidArgument.
func (d *Driver) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if len(req.GetParameters()) == 0 && d.config.DefaultVG == "" {
		return capacityResponse(capacity.Room{}), nil
	}
	c, err := d.parseClass(req.GetParameters())
	if err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) > 0 {
		if _, err := parseAccesses(req.GetVolumeCapabilities()); err != nil {
			klog.FromContext(ctx).Info("No capacity for such volumes", "reason", err.Error())
			return capacityResponse(capacity.Room{}), nil
		}
	}
	if t := req.GetAccessibleTopology(); t != nil && t.GetSegments()[d.topologyKey()] != d.topologyValue() {
		return capacityResponse(capacity.Room{}), nil
	}
	room := d.room(ctx, c.vg)
	if room.Reason != "" {
		klog.FromContext(ctx).V(2).Info("No capacity", "volumeGroup", c.vg, "reason", room.Reason)
	}
	return capacityResponse(room), nil
}

func capacityResponse(r capacity.Room) *csi.GetCapacityResponse {
	resp := &csi.GetCapacityResponse{AvailableCapacity: r.Available, MaximumVolumeSize: wrapperspb.Int64(r.Maximum)}
	if r.Minimum > 0 {
		resp.MinimumVolumeSize = wrapperspb.Int64(r.Minimum)
	}
	return resp
}

// ListVolumes lists the volumes of all VGs, by ID. The token is the last ID of the page before, so that volumes made or
// deleted between pages move nothing.
func (d *Driver) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if req.GetMaxEntries() < 0 {
		return nil, invalidf("max_entries is negative")
	}
	token := req.GetStartingToken()
	if token != "" {
		if _, err := parseVolumeID(token); err != nil {
			return nil, as(errBadToken, fmt.Errorf("starting_token %q is none that ListVolumes gave out; begin without one", token))
		}
	}
	vgs, err := d.lvm.Reports(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	resp := &csi.ListVolumesResponse{}
	for _, vg := range vgs {
		for lv, r := range d.volumes(vg) {
			if r.state == ready && r.id > token {
				resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{Volume: d.volume(r.id, lv.Size)})
			}
		}
	}
	slices.SortFunc(resp.Entries, func(a, b *csi.ListVolumesResponse_Entry) int {
		return strings.Compare(a.GetVolume().GetVolumeId(), b.GetVolume().GetVolumeId())
	})
	if limit := int(req.GetMaxEntries()); limit > 0 && len(resp.Entries) > limit {
		resp.Entries = resp.Entries[:limit]
		resp.NextToken = resp.Entries[limit-1].GetVolume().GetVolumeId()
	}
	return resp, nil
}

// ControllerGetVolume implements csi.ControllerServer. Errors: InvalidArgument, NotFound, Unavailable.
func (d *Driver) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	_, lv, _, err := d.get(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: d.volume(req.GetVolumeId(), lv.Size),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

// ValidateVolumeCapabilities confirms what a volume was made for, or says why it cannot serve. Of a volume that somebody else made
// it confirms what the driver serves.
// Errors: InvalidArgument, NotFound, Unavailable.
func (d *Driver) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, required("volume_id")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, required("volume_capabilities")
	}
	id, _, r, err := d.get(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if reason := d.mismatch(id, r, req); reason != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: reason.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}

// mismatch says in what a volume is not as asked, or returns nil. What nothing is known of is not confirmed.
func (d *Driver) mismatch(id volumeID, r record, req *csi.ValidateVolumeCapabilitiesRequest) error {
	for _, c := range req.GetVolumeCapabilities() {
		a, err := parseAccess(c)
		switch {
		case err != nil:
			return err
		case r.id == "": // somebody else made it: what it holds shows when it is mounted
		case a.fs == "" && r.fs == block:
			return errors.New("the volume is raw block and cannot be mounted")
		case a.fs != "" && a.fs != r.fs:
			return fmt.Errorf("the volume holds %s, not %s", r.fs, a.fs)
		}
	}
	if keys := slices.Sorted(maps.Keys(req.GetVolumeContext())); len(keys) > 0 {
		return fmt.Errorf("volume_context %q: this driver gives volumes none", keys)
	}
	if len(req.GetMutableParameters()) > 0 {
		return errors.New("mutable_parameters: this release has none")
	}
	if r.id == "" {
		if keys := slices.Sorted(maps.Keys(req.GetParameters())); len(keys) > 0 {
			return fmt.Errorf("parameters %q: this driver did not make the volume from any", keys)
		}
		return nil
	}
	return d.otherClass(id, r, req.GetParameters())
}

// otherClass says in what a volume was not made with these parameters, or returns nil.
func (d *Driver) otherClass(id volumeID, r record, parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	c, err := d.parseClass(parameters)
	fs, given := parameters["csi.storage.k8s.io/fstype"]
	switch {
	case err != nil:
		return err
	case c.vg != id.vg:
		return fmt.Errorf("the volume is in volume group %s, not %s", id.vg, c.vg)
	case c.erase != r.erase:
		return fmt.Errorf("the volume was made with erase %s, not %s", r.erase, c.erase)
	case len(c.mkfsOptions) > 0:
		return errors.New("parameter mkfsOptions: with which ones the volume was made is not recorded")
	case given && r.fs != block && fs != r.fs:
		return fmt.Errorf("parameter csi.storage.k8s.io/fstype: the volume holds %s, not %s", r.fs, fs)
	}
	return nil
}

// get looks up a volume for a call that changes nothing.
func (d *Driver) get(ctx context.Context, volume string) (volumeID, *lvm.LV, record, error) {
	if volume == "" {
		return volumeID{}, nil, record{}, required("volume_id")
	}
	id, err := parseVolumeID(volume)
	if err != nil {
		return volumeID{}, nil, record{}, err
	}
	_, lv, r, err := d.find(ctx, id)
	if err == nil && r.state != ready {
		err = notFoundf("volume %s is %s", id, r.state)
	}
	return id, lv, r, err
}
