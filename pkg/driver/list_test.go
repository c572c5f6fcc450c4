package driver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

// list asks for one page and returns its IDs and the token of the next.
func list(t *testing.T, d *Driver, limit int32, token string) (ids []string, next string) {
	t.Helper()
	resp := must(t, d, (*Driver).ListVolumes, &csi.ListVolumesRequest{MaxEntries: limit, StartingToken: token})
	for _, e := range resp.GetEntries() {
		ids = append(ids, e.GetVolume().GetVolumeId())
	}
	return ids, resp.GetNextToken()
}

func TestList(t *testing.T) {
	w := newWorld(t, withVG("vg1", lvmtest.VGOptions{}))
	w.lvm.AddForeignLV("vg0", "theirs", 4*mib, "somebody's")
	want := []string{w.create(t, "b", block, 4*mib), w.create(t, "a", "ext4", 8*mib), w.create(t, "c", block, 4*mib, "volumeGroup", "vg1")}
	slices.Sort(want)
	for _, state := range []state{creating, deleting} { // these are nobody's
		id := w.create(t, string(state), block, 4*mib)
		if err := w.d.lvm.Retag(t.Context(), "vg0", splitID(id).lv, w.d.tags.state(state), ""); err != nil {
			t.Fatal(err)
		}
	}
	// A copy of a volume by vgimportclone carries the ID of the original.
	w.lvm.AddForeignLV("vg1", "a", 4*mib, w.find("vg0/a").Tags...)
	for range 2 {
		got, next := list(t, w.d, 0, "")
		if diff := cmp.Diff(want, got); diff != "" || next != "" {
			t.Errorf("next token %q, volumes (-want +got):\n%s", next, diff)
		}
		w.restart(t)
	}
	entry := must(t, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{MaxEntries: 1}).GetEntries()[0]
	if diff := cmp.Diff(w.d.volume(want[0], 8*mib), entry.GetVolume(), protocmp.Transform()); diff != "" {
		t.Errorf("first entry (-want +got):\n%s", diff)
	}
}

// Volumes that are there from the first page to the last are listed once, whatever comes and goes meanwhile.
func TestListPagesWhileVolumesComeAndGo(t *testing.T) {
	for size := int32(1); size <= 8; size++ {
		t.Run(fmt.Sprint("pages of ", size), func(t *testing.T) {
			w := newWorld(t)
			var stay []string
			for _, n := range []string{"b", "d", "f", "h", "j", "l"} {
				stay = append(stay, w.create(t, n, block, 4*mib))
			}
			goes := []string{w.create(t, "c", block, 4*mib), w.create(t, "g", block, 4*mib), w.create(t, "k", block, 4*mib)}
			comes := []string{"a", "e", "i", "m"}
			seen := map[string]int{}
			for token, page := "", 0; page == 0 || token != ""; page++ {
				if page > 20 {
					t.Fatal("no end")
				}
				var ids []string
				ids, token = list(t, w.d, size, token)
				if len(ids) > int(size) {
					t.Errorf("page %d has %d", page, len(ids))
				}
				for _, id := range ids {
					seen[id]++
				}
				if len(goes) > 0 {
					w.delete(t, goes[0]) // at times the very one that the token names
					goes = goes[1:]
				}
				if len(comes) > 0 {
					w.create(t, comes[0], block, 4*mib)
					comes = comes[1:]
				}
				w.restart(t) // the token outlives it
			}
			for _, id := range stay {
				if seen[id] != 1 {
					t.Errorf("%s was listed %d times", id, seen[id])
				}
			}
			for id, n := range seen {
				if n > 1 {
					t.Errorf("%s was listed %d times", id, n)
				}
			}
		})
	}
}

func TestListBadInput(t *testing.T) {
	w := newWorld(t)
	fails(t, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{MaxEntries: -1}, codes.InvalidArgument, "max_entries", "negative")
	fails(t, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{StartingToken: "3"}, codes.Aborted, "starting_token", "begin without one")
	w.lvm.SetHook(answer(5, "Error reading device /dev/sdb at 0 length 512."))
	fails(t, w.d, (*Driver).ListVolumes, &csi.ListVolumesRequest{}, codes.Unavailable, "listing volumes")
}

func TestListOfNothing(t *testing.T) {
	w := newWorld(t)
	if ids, next := list(t, w.d, 3, ""); len(ids) != 0 || next != "" {
		t.Errorf("listed %q, next %q", ids, next)
	}
}

func TestGet(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "pvc-1", "ext4", 65*mib)
	want := &csi.ControllerGetVolumeResponse{Volume: w.d.volume(id, 68*mib), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{}}
	for range 2 {
		got := must(t, w.d, (*Driver).ControllerGetVolume, &csi.ControllerGetVolumeRequest{VolumeId: id})
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.restart(t)
	}
	if err := w.d.lvm.Retag(t.Context(), "vg0", "pvc-1", w.d.tags.state(creating), ""); err != nil {
		t.Fatal(err)
	}
	fails(t, w.d, (*Driver).ControllerGetVolume, &csi.ControllerGetVolumeRequest{VolumeId: id}, codes.NotFound, "creating")
}
