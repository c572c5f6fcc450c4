package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

// A PV written by hand over an LV that this driver did not make has the ID "<vg>/<lv>": it is mounted, and never formatted,
// resized or deleted.

func TestStaticVolume(t *testing.T) {
	for _, fs := range []string{"ext4", "", block} {
		t.Run("fs "+fs, func(t *testing.T) {
			const id = "vg0/theirs"
			w := newWorld(t)
			w.lvm.AddForeignLV("vg0", "theirs", 64*mib, "somebody's")
			w.lvm.SetContents("vg0", "theirs", "ext4")
			w.lvm.Stain("vg0", "theirs", "data")
			before := w.state(t)
			for _, when := range []string{"first", "again", "after a restart", "after a reboot"} {
				switch when {
				case "after a restart":
					w.restart(t)
				case "after a reboot":
					w.reboot(t)
				}
				w.publish(t, id, fs, "a")
				must(t, w.d, (*Driver).NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: w.target("a")})
				fails(t, w.d, (*Driver).NodeExpandVolume, expandRequest(id, w.target("a"), 128*mib), codes.FailedPrecondition, "did not make", "lvextend")
				fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.FailedPrecondition, "Retain")
			}
			must(t, w.d, (*Driver).ControllerGetVolume, &csi.ControllerGetVolumeRequest{VolumeId: id})
			if got := must(t, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{}); len(got.GetEntries()) != 0 {
				t.Errorf("it is listed: %v", got)
			}
			w.unpublish(t, id, "a")
			w.unstage(t, id)
			fails(t, w.d, (*Driver).DeleteVolume, deleteRequest(id), codes.FailedPrecondition, "Retain")
			after := w.state(t)
			if diff := cmp.Diff([]any{before.Contents, before.Stains, before.VGs["vg0"].Seqno}, []any{after.Contents, after.Stains, after.VGs["vg0"].Seqno}); diff != "" {
				t.Errorf("the LV has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Without node affinity every node is asked to delete a static PV (Azure 528). The success of one that lacks its LV would have the PV removed.
func TestDeleteStaticVolumeThatIsElsewhere(t *testing.T) {
	w := newWorld(t)
	fails(t, w.d, (*Driver).DeleteVolume, deleteRequest("vg0/theirs"), codes.FailedPrecondition, "Retain")
	fails(t, w.d, (*Driver).DeleteVolume, deleteRequest("vg9/theirs"), codes.FailedPrecondition, "Retain")
}

// A blank LV of somebody's is not formatted, whatever the PV says.
func TestStaticVolumeIsNeverFormatted(t *testing.T) {
	w := newWorld(t)
	w.lvm.AddForeignLV("vg0", "theirs", 64*mib)
	before := w.state(t)
	fails(t, w.d, (*Driver).NodeStageVolume, w.stageRequest("vg0/theirs", "ext4"), codes.FailedPrecondition, "no filesystem")
	unchanged(t, w, before)
}

// LVM and administrators use names that the driver would not: they can be mounted all the same.
func TestStaticVolumeOfAnyName(t *testing.T) {
	for _, name := range []string{"root", "data.in", "x.out", "csi-0", "a+b", "A_B",
		"mysql-data-volume-for-the-production-cluster-in-frankfurt", strings.Repeat("n", 123)} {
		w := newWorld(t)
		w.lvm.AddForeignLV("vg0", name, 64*mib)
		w.lvm.SetContents("vg0", name, "xfs")
		w.publish(t, "vg0/"+name, "xfs", "a")
		w.unpublish(t, "vg0/"+name, "a")
		w.unstage(t, "vg0/"+name)
		fails(t, w.d, (*Driver).DeleteVolume, deleteRequest("vg0/"+name), codes.FailedPrecondition, "Retain")
	}
}
