package driver

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// backupPause is between two backups of a VG's metadata: each takes LVM half a second and a file of some hundred KiB.
const backupPause = time.Hour

// KeepBackups has LVM write its backup of each VG that was changed, once an hour, until ctx ends: the changes themselves leave
// that out, because it takes as long as they do.
func (d *Driver) KeepBackups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backupPause):
		}
		if err := d.lvm.BackUpChanged(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "LVM's backup of the metadata was not written; see /etc/lvm/backup")
		}
	}
}
