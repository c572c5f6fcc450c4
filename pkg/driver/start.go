package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// startTimeout bounds one look at a VG after the start; startPause is between two looks.
const (
	startTimeout = 30 * time.Second
	startPause   = 10 * time.Second
	busyPause    = time.Second // between two tries to go on with a deletion while a call has the volume
)

// allVGs is the name under which Start looks at every VG.
const allVGs = ""

// Start looks at the VGs that matter, one after the other, until LVM has answered of each. When it has of the default VG, or of any where
// there is none, the driver is ready; meanwhile it serves, because unmounts must go on. What an interrupted lvm or driver left there it puts right, each VG apart
// from the others, so that one that hangs keeps none from that. It returns when ctx ends or all is done.
func (d *Driver) Start(ctx context.Context) {
	if d.config.NoTools {
		d.lvmSeen.Do(func() { close(d.lvmOK) })
		return
	}
	logger := klog.FromContext(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	all := d.startVGs(ctx)
	for names := all; ; {
		var unread []string
		for _, name := range names {
			decides := d.config.DefaultVG == "" || name == d.config.DefaultVG // whether the driver is ready
			vgs, err := d.look(ctx, name)
			if err != nil {
				message := "What an interruption left in the volume group waits: LVM does not answer"
				if decides && d.Ready() != nil {
					message = "Not ready: LVM does not answer; volumes in use go on, no new ones are made"
				}
				logger.Error(err, message, "volumeGroup", name)
				unread = append(unread, name)
				continue
			}
			if decides {
				d.lvmSeen.Do(func() { close(d.lvmOK) })
			}
			for _, vg := range vgs {
				if name == allVGs && slices.Contains(all, vg.Name) {
					continue // looked at by its name
				}
				doomed := d.remember(vg)
				tasks.Go(func() { d.takeUp(ctx, vg, doomed) })
			}
		}
		if names = unread; len(names) == 0 {
			d.known.settle()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(startPause):
		}
	}
}

// startVGs names the VGs in which something may be to do: those of the configuration, and those that have active LVs. Without a default
// VG volumes may be in any: then it ends with allVGs, a report that hangs as long as any disk does.
func (d *Driver) startVGs(ctx context.Context) []string {
	active, err := d.mounter.ActiveVGs(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Only the volume groups of the configuration are looked at")
	}
	for vg := range d.config.Reserve {
		active = append(active, vg)
	}
	slices.Sort(active)
	active = slices.DeleteFunc(slices.Compact(active), func(vg string) bool { return vg == d.config.DefaultVG })
	if d.config.DefaultVG == "" {
		return append(active, allVGs)
	}
	return slices.Insert(active, 0, d.config.DefaultVG)
}

// look reads a VG by its name: such a report does not hang on the disks of another. A VG that is not there is none.
func (d *Driver) look(ctx context.Context, name string) ([]*lvm.VG, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if name == allVGs {
		return d.lvm.Reports(ctx)
	}
	vg, err := d.lvm.Report(ctx, name)
	switch {
	case err == nil:
		return []*lvm.VG{vg}, nil
	case errors.Is(err, lvm.ErrNoVG) && name == d.config.DefaultVG:
		klog.FromContext(ctx).Info("The default volume group is not on this node; its capacity here is zero", "volumeGroup", name)
		return nil, nil
	case errors.Is(err, lvm.ErrNoVG):
		klog.FromContext(ctx).V(2).Info("The volume group is not on this node", "volumeGroup", name, "reason", err.Error())
		return nil, nil
	}
	return nil, err
}

// remember makes the volumes of a VG known, and lists those whose deletion was interrupted.
func (d *Driver) remember(vg *lvm.VG) (doomed []string) {
	whole := map[string]string{}
	for lv, r := range d.volumes(vg) {
		switch {
		case r.state == ready && !lv.IsPartial():
			whole[r.id] = lvm.MapperUUID(vg.UUID, lv.UUID)
		case r.state == deleting:
			doomed = append(doomed, r.id)
		}
	}
	d.known.remember(whole)
	return doomed
}

// smallMetadata is a metadata area that is full long before the disks are: LVM's default of 1 MiB holds about a thousand volumes.
const smallMetadata = 4 << 20

// takeUp puts right what an interrupted lvm left in a VG, has its backup written, which the last process may have owed, and goes
// on with interrupted deletions. It leaves alone a VG that is neither in the configuration nor holds a volume.
func (d *Driver) takeUp(ctx context.Context, vg *lvm.VG, doomed []string) {
	logger := klog.FromContext(ctx).WithValues("volumeGroup", vg.Name)
	holds := false
	for range d.volumes(vg) {
		holds = true
	}
	if _, reserved := d.config.Reserve[vg.Name]; !holds && !reserved && vg.Name != d.config.DefaultVG {
		return
	}
	if vg.MDASize < smallMetadata && vg.Name == d.config.DefaultVG {
		logger.Info("The volume group's metadata area is small: it may be full before the disks are; see pvcreate(8) --metadatasize",
			"bytes", vg.MDASize, "free", vg.MDAFree)
	}
	if slices.ContainsFunc(vg.LVs, func(lv lvm.LV) bool { return lv.Suspended || lv.InactiveTable }) {
		// Whoever writes to a suspended LV hangs: that does not wait for the next change.
		if err := d.lvm.Repair(ctx, vg.Name); err != nil {
			logger.Error(err, "What an interrupted lvm left waits for the next change")
		}
	}
	if holds && !vg.Partial { // a backup of the whole VG is not for being replaced by one of a part
		if err := d.lvm.Backup(ctx, vg.Name); err != nil {
			logger.Error(err, noBackup)
		}
	}
	for _, volume := range doomed {
		if ctx.Err() != nil || d.erasing.Err() != nil {
			return
		}
		logger.Info("Going on with an interrupted deletion", "volume", volume)
		err := d.goOnDeleting(ctx, volume)
		for errors.Is(err, errBusy) { // by a call that is refused in a moment, such as NodeStage, or by its DeleteVolume
			select {
			case <-d.erasing.Done():
				return
			case <-ctx.Done():
				return
			case <-time.After(busyPause):
			}
			err = d.goOnDeleting(ctx, volume)
		}
		if err != nil {
			logger.Error(err, "The deletion waits for its next DeleteVolume", "volume", volume)
		}
	}
}

// goOnDeleting removes a volume that is still being deleted. That it once was does not suffice: calls are
// answered meanwhile, and CreateVolume may have made a new volume of that name.
func (d *Driver) goOnDeleting(ctx context.Context, volume string) error {
	id, err := parseVolumeID(volume)
	if err != nil {
		return err
	}
	_, err = work(ctx, d, id.vg, id.lv, func(ctx context.Context) (none struct{}, err error) {
		_, _, r, err := d.find(ctx, id)
		if errors.Is(err, lvm.ErrNotFound) || err == nil && r.state != deleting {
			return none, nil
		}
		if err != nil {
			return none, err
		}
		return none, d.remove(ctx, id)
	})
	return err
}
