package driver

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// backupPause is between two backups of a VG's metadata: each takes LVM half a second and a file of some hundred KiB.
const backupPause = time.Hour

// KeepBackups has LVM write its backup of each VG that was changed, once an hour, until ctx ends: the changes themselves leave
// that out, because it takes as long as they do. Start and Close write those of which it cannot know and that it would not live to see.
func (d *Driver) KeepBackups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backupPause):
		}
		if err := d.lvm.BackUpChanged(ctx); err != nil {
			klog.FromContext(ctx).Error(err, noBackup)
		}
	}
}

const noBackup = "LVM's backup of the metadata was not written; see /etc/lvm/backup"

// backUpAtLast writes the backups of what was changed, unless they take too long: that something was changed is forgotten with the process.
func (d *Driver) backUpAtLast() {
	ctx, cancel := context.WithTimeout(context.Background(), backupGrace)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.lvm.BackUpChanged(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-d.late:
		err = context.DeadlineExceeded
	}
	if err != nil {
		klog.Background().Error(err, noBackup)
	}
}
