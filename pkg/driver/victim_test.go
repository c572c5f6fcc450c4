package driver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// victim is the volume of a scenario.
type victim struct {
	fs       string
	erase    mounter.Erase // "" is the default
	limit    int64         // in CreateVolume
	readOnly bool          // published so
}

const (
	victimSize = 320 * mib
	grownSize  = 400 * mib
	secret     = "secret" // what the victim's pod has written
)

var victimID = volumeID{vg: "vg0", lv: "victim", node: nodeHash("node-1")}.String()

func (v victim) String() string {
	words := []string{v.fs}
	if v.erase != "" {
		words = append(words, "erase="+string(v.erase))
	}
	if v.readOnly {
		words = append(words, "ro")
	}
	return strings.Join(words, " ")
}

// made makes the victim, with data on it.
func (v victim) made(t *testing.T, w *world) {
	t.Helper()
	if err := v.create(t.Context(), w.d, victimSize); err != nil {
		t.Fatal(err)
	}
	w.lvm.Stain("vg0", "victim", secret)
}

// mountsOf lists the mounts of a volume: the last element of the path, and how it is mounted.
func mountsOf(t *testing.T, w *world, name string) []string {
	t.Helper()
	all, err := w.mounter.Mounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dev, _ := w.lvm.Device("vg0", name)
	var lines []string
	for _, m := range all {
		if m.DeviceID != dev.ID {
			continue
		}
		line := filepath.Base(m.Path)
		if m.ReadOnly {
			line += " ro"
		}
		lines = append(lines, strings.TrimSpace(line+" "+m.FSType))
	}
	slices.Sort(lines)
	return lines
}

// whole checks that the victim is as it was asked for, with this size and this data on it.
func (v victim) whole(t *testing.T, w *world, size int64, data ...string) {
	t.Helper()
	lv, active := w.lvm.Device("vg0", "victim") // costs less than a report
	if !active {
		found := w.find(victimID)
		if found == nil {
			t.Fatal("the volume is gone")
		}
		lv.Tags, lv.Size = found.Tags, found.Size
	}
	slices.Sort(lv.Tags)
	contents := v.fs
	if v.fs == block {
		contents = ""
	}
	tags := w.d.tags.write(record{id: victimID, name: "victim", fs: v.fs, erase: cmp.Or(v.erase, mounter.EraseZero)})
	slices.Sort(tags)
	if diff := gocmp.Diff(tags, lv.Tags); diff != "" {
		t.Errorf("tags: %s", diff)
	}
	if lv.Size != size {
		t.Errorf("it has %d bytes, not %d", lv.Size, size)
	}
	if found := w.lvm.Contents("vg0", "victim"); found != contents {
		t.Errorf("it holds %q", found)
	}
	if diff := gocmp.Diff(data, w.lvm.Stains("vg0", "victim")); diff != "" {
		t.Errorf("data: %s", diff)
	}
	if active && v.fs != block && w.mounter.FilesystemSize("vg0", "victim") != size {
		t.Errorf("the filesystem has %d bytes of %d", w.mounter.FilesystemSize("vg0", "victim"), size)
	}
}

// mounted checks where the victim is mounted.
func (v victim) mounted(t *testing.T, w *world, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := gocmp.Diff(want, mountsOf(t, w, "victim")); diff != "" {
		t.Errorf("mounts: %s", diff)
	}
	all, err := w.mounter.Mounts(t.Context())
	if err != nil || len(all) != len(want)+len(mountsOf(t, w, "neighbour")) {
		t.Errorf("mounts: %+v, %v", all, err)
	}
	opens := 0
	if v.fs != block && len(want) > 0 {
		opens = 1
	}
	if dev, _ := w.lvm.Device("vg0", "victim"); dev.Opens != opens {
		t.Errorf("the device is open %d times", dev.Opens)
	}
}

// gone checks that nothing is left of the victim.
func (v victim) gone(t *testing.T, w *world) {
	t.Helper()
	if lv := w.find(victimID); lv != nil {
		t.Errorf("it is still there: %+v", lv)
	}
}

// lines are what mountsOf says when the victim is staged and published at these targets.
func (v victim) lines(targets ...string) []string {
	var all []string
	how := v.fs
	if v.fs == block {
		how = ""
	} else {
		all = append(all, stagedAt+" "+v.fs)
	}
	if v.readOnly {
		how = "ro " + how
	}
	for _, target := range targets {
		all = append(all, strings.TrimSpace(target+" "+how))
	}
	return all
}

var stagedAt = filepath.Base((&world{}).staging(victimID))

// The calls that a victim's life is made of.

func (v victim) create(ctx context.Context, d *Driver, size int64) error {
	req := createRequest("victim", v.fs, size)
	req.CapacityRange.LimitBytes = v.limit
	if v.erase != "" {
		req.Parameters["erase"] = string(v.erase)
	}
	resp, err := rpc(ctx, d, (*Driver).CreateVolume, req)
	if err == nil && (resp.GetVolume().GetVolumeId() != victimID || resp.GetVolume().GetCapacityBytes() < size) {
		return errors.New("CreateVolume answered " + resp.String())
	}
	return err
}

func (v victim) stage(ctx context.Context, w *world, d *Driver) error {
	_, err := rpc(ctx, d, (*Driver).NodeStageVolume, w.stageRequest(victimID, v.fs))
	return err
}

func (v victim) publish(ctx context.Context, w *world, d *Driver, target string) error {
	req := w.publishRequest(victimID, v.fs, target)
	req.Readonly = v.readOnly
	_, err := rpc(ctx, d, (*Driver).NodePublishVolume, req)
	return err
}

func (v victim) expand(ctx context.Context, w *world, d *Driver, size int64) error {
	resp, err := rpc(ctx, d, (*Driver).NodeExpandVolume, expandRequest(victimID, w.target("target"), size))
	if err == nil && resp.GetCapacityBytes() < size {
		return errors.New("NodeExpandVolume answered " + resp.String())
	}
	return err
}

// pod has the victim staged and published, as for a pod that starts.
func (v victim) pod(t *testing.T, w *world) {
	t.Helper()
	if err := errors.Join(v.stage(t.Context(), w, w.d), v.publish(t.Context(), w, w.d, "target")); err != nil {
		t.Fatal(err)
	}
}

// end has the victim unpublished, unstaged and deleted.
func (v victim) end(t *testing.T, w *world) {
	t.Helper()
	w.unpublish(t, victimID, "target")
	w.unpublish(t, victimID, "other")
	w.unstage(t, victimID)
	v.mounted(t, w)
	w.delete(t, victimID)
	v.gone(t, w)
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
