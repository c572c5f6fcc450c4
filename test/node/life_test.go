//go:build vm

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// TestLife takes a volume of each kind through its life, with the node "rebooted" in the middle: its LV inactive and the driver new.
func TestLife(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs", Block} {
		t.Run(fs, func(t *testing.T) {
			h := newHost(t, []int64{1200 * mib})
			before := h.available(t)
			v := h.create(t, "pvc-life-"+fs, fs, 350*mib, nil)
			if got := h.available(t); got != before-v.Size {
				t.Errorf("%d bytes available after creating %d of %d", got, v.Size, before)
			}
			h.mount(t, v)
			h.mount(t, v) // again changes nothing
			data := v.Target()
			if fs != Block {
				data = filepath.Join(v.Target(), "file")
				write(t, data, "kept")
			} else if err := writeBlock(data, "kept"); err != nil {
				t.Fatal(err)
			}
			if err := v.Expand(t.Context(), 600*mib); err != nil {
				t.Fatal(err)
			}
			checkSize(t, v)
			checkStats(t, h, v)
			if err := v.Unmount(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(v.Target()); !os.IsNotExist(err) {
				t.Errorf("the target is still there: %v", err)
			}

			if err := h.Stop(); err != nil {
				t.Fatal(err)
			}
			run(t, "vgchange", "-qq", "-an", h.vg.Name)
			if err := h.Start(""); err != nil {
				t.Fatal(err)
			}
			again := h.Volume(v.ID, "pvc-life-"+fs, fs, v.Size)
			h.mount(t, again)
			if fs != Block {
				wantFile(t, data, "kept")
			} else if got := readBlock(t, data, 4); got != "kept" {
				t.Errorf("read %q from the block device", got)
			}
			if err := again.Unmount(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := again.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := again.Delete(t.Context()); err != nil {
				t.Errorf("deleting again: %v", err)
			}
			if got := h.available(t); got != before {
				t.Errorf("%d bytes available in the end, %d in the beginning", got, before)
			}
		})
	}
}

// checkSize looks at the volume as a pod does.
func checkSize(t *testing.T, v *Volume) {
	t.Helper()
	if v.FS == Block {
		file, err := os.Open(v.Target())
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if size, err := file.Seek(0, 2); err != nil || size != v.Size {
			t.Errorf("the block device has %d bytes (%v), want %d", size, err, v.Size)
		}
		return
	}
	var st unix.Statfs_t
	if err := unix.Statfs(v.Target(), &st); err != nil {
		t.Fatal(err)
	}
	if size := int64(st.Blocks) * st.Bsize; size < v.Size*85/100 || size > v.Size {
		t.Errorf("the filesystem has %d bytes on a volume of %d", size, v.Size)
	}
}

func checkStats(t *testing.T, h *host, v *Volume) {
	t.Helper()
	resp, err := h.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target()})
	if err != nil {
		t.Fatal(err)
	}
	units := map[csi.VolumeUsage_Unit]*csi.VolumeUsage{}
	for _, u := range resp.GetUsage() {
		units[u.GetUnit()] = u
	}
	if b := units[csi.VolumeUsage_BYTES]; b.GetTotal() < v.Size*85/100 || v.FS != Block && (b.GetUsed() <= 0 || b.GetAvailable() <= 0) {
		t.Errorf("bytes: %v", b)
	}
	if i := units[csi.VolumeUsage_INODES]; (v.FS == "ext4" || v.FS == "xfs") && (i.GetTotal() <= 0 || i.GetUsed() <= 0 || i.GetAvailable() <= 0) {
		t.Errorf("inodes: %v", i)
	}
}

// TestReadOnlyAndMountFlags: what a pod must not write it cannot, and flags reach the kernel, also one with commas in it.
func TestReadOnlyAndMountFlags(t *testing.T) {
	h := newHost(t, []int64{400 * mib})
	v := h.create(t, "pvc-ro", "ext4", 64*mib, map[string]string{"mkfsOptions": "-L label -i 8192"})
	capability := Capability("ext4")
	capability.GetMount().MountFlags = []string{"noatime", "commit=7"}
	if err := os.MkdirAll(v.Staging(), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := h.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging(), VolumeCapability: capability}); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "findmnt", "-no", "OPTIONS,LABEL", v.Staging()); !contains(got, "noatime") || !contains(got, "commit=7") || !contains(got, "label") {
		t.Errorf("mounted with %s", got)
	}
	publish := &csi.NodePublishVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging(), TargetPath: v.Target(), VolumeCapability: capability, Readonly: true}
	for range 2 {
		if _, err := h.NodePublishVolume(t.Context(), publish); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(v.Target(), "x"), nil, 0o600); !os.IsPermission(err) && err == nil {
		t.Error("a read-only target took a write")
	}
	if err := os.WriteFile(filepath.Join(v.Staging(), "x"), nil, 0o600); err != nil {
		t.Errorf("publishing read-only made the staging path read-only too: %v", err)
	}
	if n := len(lines(run(t, "findmnt", "-no", "TARGET", v.Target()))); n != 1 {
		t.Errorf("%d mounts at the target", n)
	}
}
