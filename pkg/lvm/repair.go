package lvm

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"
)

// repair puts right what a killed lvm leaves: an LV still suspended, so that its
// writers hang, or a table loaded and never made live, which a later resume would map although its
// extents may by then belong to another LV. The caller holds the VG's turn.
//
// The report takes LVM's lock, so no lvm command is between suspend and resume while it looks.
func (l *LVM) repair(ctx context.Context, vg string) error {
	report, err := l.report(ctx, vg)
	if errors.Is(err, ErrNoVG) {
		return err
	}
	if err != nil {
		return fmt.Errorf("looking for what an interrupted lvm left in %s: %w", vg, err)
	}
	for _, lv := range report.LVs {
		if !lv.Suspended && !lv.InactiveTable {
			continue
		}
		klog.FromContext(ctx).Info("Repairing a device that an interrupted lvm left", "volumeGroup", vg, "logicalVolume", lv.Name,
			"suspended", lv.Suspended, "inactiveTable", lv.InactiveTable)
		if lv.InactiveTable {
			if err := l.repairStep(ctx, "dmsetup", "clear", MapperName(vg, lv.Name)); err != nil {
				return err
			}
		}
		step := []string{"lvchange", "-A", "n", "-y", "--refresh", vg + "/" + lv.Name}
		if lv.IsPartial() { // lvm refuses to refresh it; its table is the old one, but its writers go on
			step = []string{"dmsetup", "resume", MapperName(vg, lv.Name)}
		}
		if err := l.repairStep(ctx, step...); err != nil {
			return err
		}
	}
	return nil
}

func (l *LVM) repairStep(ctx context.Context, args ...string) error {
	out, err := l.run.Run(context.WithoutCancel(ctx), args...)
	if err != nil {
		return err
	}
	if out.Code != 0 {
		return failure(args[0], out)
	}
	return nil
}
