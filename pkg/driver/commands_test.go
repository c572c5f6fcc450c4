package driver

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// The lvm commands of each RPC, word by word: the table of design.md, section 5.

const (
	report     = "fullreport --nolocking vg0"
	lockReport = "fullreport vg0" // the one look for what a killed lvm left
)

// The commands for a volume pvc-1 of vg0.
const (
	createBlock = "lvcreate -A n -y -W y -Z y -n pvc-1 -L 67108864b --addtag lvm-csi.io/v=1 --addtag lvm-csi.io/id=vg0/pvc-1:35971be6 " +
		"--addtag lvm-csi.io/name=pvc-1 --addtag lvm-csi.io/fs=block vg0"
	createExt4 = "lvcreate -A n -y -W y -Z y -n pvc-1 -L 67108864b --addtag lvm-csi.io/v=1 --addtag lvm-csi.io/id=vg0/pvc-1:35971be6 " +
		"--addtag lvm-csi.io/name=pvc-1 --addtag lvm-csi.io/fs=ext4 --addtag lvm-csi.io/state=creating vg0"
	commit       = "lvchange -A n -y --deltag lvm-csi.io/state=creating vg0/pvc-1"
	markDeleting = "lvchange -A n -y --addtag lvm-csi.io/state=deleting vg0/pvc-1"
	remove       = `lvremove -A n -y -S lv_name="pvc-1" && lv_tags="lvm-csi.io/id=vg0/pvc-1:35971be6" && lv_role!="thickorigin" && lv_device_open!=1 vg0`
	activate     = "lvchange -A n -y -a y vg0/pvc-1"
	extend       = "lvextend -A n -y -L 134217728b vg0/pvc-1"
)

func TestCommands(t *testing.T) {
	const size, larger = 64 * mib, 128 * mib
	for name, tc := range map[string]struct {
		opts  []option
		given func(t *testing.T, w *world) (id string) // what is there before
		when  func(t *testing.T, w *world, id string)
		want  []string
	}{
		"create block": {
			when: func(t *testing.T, w *world, _ string) { w.create(t, "pvc-1", block, size) },
			want: []string{createBlock},
		},
		"create block again": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", block, size) },
			when:  func(t *testing.T, w *world, _ string) { w.create(t, "pvc-1", block, size) },
			want:  []string{createBlock, report},
		},
		"create ext4": {
			when: func(t *testing.T, w *world, _ string) { w.create(t, "pvc-1", "ext4", size) },
			want: []string{createExt4, commit},
		},
		"create ext4 again": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", "ext4", size) },
			when:  func(t *testing.T, w *world, _ string) { w.create(t, "pvc-1", "ext4", size) },
			want:  []string{createExt4, report},
		},
		"create block beside a reserve": {
			opts: []option{withConfig(func(c *Config) { c.Reserve = map[string]int64{"vg0": gib} })},
			when: func(t *testing.T, w *world, _ string) { w.create(t, "pvc-1", block, size) },
			want: []string{report, createBlock},
		},
		"delete and erase": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", "ext4", size) },
			when:  func(t *testing.T, w *world, id string) { w.delete(t, id) },
			want:  []string{report, markDeleting, remove},
		},
		"delete and not erase": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", block, size, "erase", "none") },
			when:  func(t *testing.T, w *world, id string) { w.delete(t, id) },
			want:  []string{report, remove},
		},
		"delete what is gone": {
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", block, size)
				w.delete(t, id)
				return id
			},
			when: func(t *testing.T, w *world, id string) { w.delete(t, id) },
			want: []string{report},
		},
		"delete an ID that cannot be": {
			when: func(t *testing.T, w *world, _ string) { w.delete(t, "no such volume") },
			want: []string{},
		},
		"a filesystem's life on the node": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", "ext4", size) },
			when: func(t *testing.T, w *world, id string) {
				w.publish(t, id, "ext4", "a")
				w.unpublish(t, id, "a")
				w.unstage(t, id)
			},
			want: []string{},
		},
		"a block volume's life on the node": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", block, size) },
			when: func(t *testing.T, w *world, id string) {
				w.publish(t, id, block, "a")
				w.unpublish(t, id, "a")
				w.unstage(t, id)
			},
			want: []string{},
		},
		"stage after a restart": { // Start's one report knows all volumes of the default VG
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", "ext4", size)
				w.restart(t)
				w.d.Start(t.Context())
				return id
			},
			when: func(t *testing.T, w *world, id string) { w.publish(t, id, "ext4", "a") },
			want: []string{},
		},
		"stage after a reboot": { // metal-stack 153: inactive; Azure/local-csi-driver 193: activated, not made anew
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", "ext4", size)
				w.reboot(t)
				w.d.Start(t.Context())
				w.warm(t)
				return id
			},
			when: func(t *testing.T, w *world, id string) { w.publish(t, id, "ext4", "a") },
			want: []string{activate},
		},
		"stats": { // topolvm 1221: 40 lvm runs a minute from stats
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", "ext4", size)
				w.publish(t, id, "ext4", "a")
				return id
			},
			when: func(t *testing.T, w *world, id string) {
				must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a")})
			},
			want: []string{},
		},
		"expand": {
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", "ext4", size)
				w.stage(t, id, "ext4")
				return id
			},
			when: func(t *testing.T, w *world, id string) {
				must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.staging(id), larger))
			},
			want: []string{extend},
		},
		"expand again": {
			given: func(t *testing.T, w *world) string {
				id := w.create(t, "pvc-1", "ext4", size)
				must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.stage(t, id, "ext4"), larger))
				return id
			},
			when: func(t *testing.T, w *world, id string) {
				must(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.staging(id), larger))
			},
			want: []string{},
		},
		"capacity": {
			when: func(t *testing.T, w *world, _ string) {
				must(t, w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{})
			},
			want: []string{report},
		},
		"get": {
			given: func(t *testing.T, w *world) string { return w.create(t, "pvc-1", block, size) },
			when: func(t *testing.T, w *world, id string) {
				must(t, w.d, (*Driver).ControllerGetVolume, &csi.ControllerGetVolumeRequest{VolumeId: id})
			},
			want: []string{report},
		},
		"identity": {
			when: func(t *testing.T, w *world, _ string) {
				must(t, w.d, (*Driver).Probe, &csi.ProbeRequest{})
				must(t, w.d, (*Driver).NodeGetInfo, &csi.NodeGetInfoRequest{})
				must(t, w.d, (*Driver).GetPluginInfo, &csi.GetPluginInfoRequest{})
			},
			want: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.opts...)
			w.warm(t)
			var id string
			if tc.given != nil {
				id = tc.given(t, w)
			}
			got := w.spent(func() { tc.when(t, w, id) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lvm commands (-want +got):\n%s", diff)
			}
		})
	}
}

// The first change of a VG after the start costs one report more: nothing may be left over from a killed lvm.
func TestFirstChangeOfEachVGCostsOneLook(t *testing.T) {
	w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
	got := w.spent(func() { w.create(t, "pvc-1", block, 64*mib) })
	if diff := cmp.Diff([]string{lockReport, createBlock}, got); diff != "" {
		t.Errorf("in the first VG (-want +got):\n%s", diff)
	}
	if got := w.spent(func() { w.create(t, "pvc-2", block, 64*mib, "volumeGroup", "vg1") }); len(got) != 2 || got[0] != "fullreport vg1" {
		t.Errorf("in the second VG: %q", got)
	}
	if got := w.spent(func() { w.create(t, "pvc-3", block, 64*mib) }); len(got) != 1 {
		t.Errorf("the second change: %q", got)
	}
}

// external-provisioner asks for the capacity of all StorageClasses at once: one report that runs, and one for all who asked meanwhile.
func TestConcurrentCapacityShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		w.lvm.SetHook(func(_ context.Context, _ []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			<-release
			return run()
		})
		ask := func() {
			if _, err := rpc(t.Context(), w.d, (*Driver).GetCapacity, &csi.GetCapacityRequest{}); err != nil {
				t.Error(err)
			}
		}
		got := w.spent(func() {
			go ask()
			synctest.Wait() // it runs its report
			for range 20 {
				go ask()
			}
			synctest.Wait() // all of them wait
			close(release)
			synctest.Wait()
		})
		if diff := cmp.Diff([]string{report, report}, got); diff != "" {
			t.Errorf("lvm commands of 21 callers (-want +got):\n%s", diff)
		}
	})
}
