package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lvm-csi/lvm-csi/pkg/capacity"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// room is what the VG of a name has for volumes beside those that are being made; an error is a reason to have none.
func (d *Driver) room(ctx context.Context, name string) capacity.Room {
	ctx, cancel := context.WithTimeout(ctx, capacityTimeout)
	defer cancel()
	claimed := d.claims.of(name)
	vg, err := d.lvm.Report(ctx, name)
	if err != nil {
		return capacity.Room{Reason: err.Error()}
	}
	return less(d.roomOf(vg), vg, claimed)
}

// roomOf is what a VG has for linear volumes. What is reported and what is granted, to new volumes and to those that
// grow, both come from here.
func (d *Driver) roomOf(vg *lvm.VG) capacity.Room {
	d.metadataLow.Store(vg.Name, capacity.MetadataLow(vg))
	reserve, hasReserve := d.config.Reserve[vg.Name]
	if !hasReserve && slices.Contains(d.config.SystemVGs, vg.Name) {
		return capacity.Room{Reason: fmt.Sprintf("volume group %s holds the node's root file system or swap; "+
			"to use the rest of it, start the driver with a --reserve for it", vg.Name)}
	}
	return capacity.Linear(vg, reserve)
}

// restricted reports whether less than what LVM would give may be taken of a VG: it has a reserve, holds the system, or its
// metadata area was low when its room was last looked at, which external-provisioner does each minute.
func (d *Driver) restricted(vg string) bool {
	low, _ := d.metadataLow.Load(vg)
	return d.config.Reserve[vg] != 0 || slices.Contains(d.config.SystemVGs, vg) || low == true
}

// turns lets one caller at a time look at the room of a VG and take of it: LVM itself does not know of a reserve, and two
// who saw the same room would take it twice.
type turns struct {
	mu  sync.Mutex
	vgs map[string]chan struct{}
}

func newTurns() turns { return turns{vgs: map[string]chan struct{}{}} }

// take waits for the turn of a VG, as long as ctx lasts.
func (t *turns) take(ctx context.Context, vg string) (release func(), err error) {
	t.mu.Lock()
	if t.vgs[vg] == nil {
		t.vgs[vg] = make(chan struct{}, 1)
	}
	turn := t.vgs[vg]
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for others who take of volume group %s: %w", vg, ctx.Err())
	}
}
