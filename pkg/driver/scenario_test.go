package driver

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// scenario is a call that something happens to, and what must be true in the end.
type scenario struct {
	name         string
	v            victim
	metadataSize int64 // of the VG; 0 is the default
	prepare      func(t *testing.T, w *world)
	call         func(ctx context.Context, w *world, d *Driver) error
	remount      func(t *testing.T, w *world) // what kubelet sends before the call is repeated after a reboot; nil is nothing
	want         func(t *testing.T, w *world)
	then         []sequel

	rest *rest // of the node before the call, once known
}

// sequel is what kubelet or the provisioner may send other than the same call again, and what must come of it.
type sequel struct {
	name string
	do   func(t *testing.T, w *world)
}

// newNode is a node with one volume in use, one LV that is not the driver's, and room. Data is on both.
func newNode(t *testing.T, metadataSize int64) *world {
	t.Helper()
	w := newWorld(t, withVG("vg0", lvmtest.VGOptions{PVs: []int64{512 * mib, 512 * mib}, MetadataSize: metadataSize}))
	id := volumeID{vg: "vg0", lv: "neighbour", node: w.d.node}.String()
	w.lvm.AddForeignLV("vg0", "neighbour", 64*mib, w.d.tags.write(record{id: id, name: "neighbour", fs: "ext4", erase: mounter.EraseZero})...)
	w.lvm.SetContents("vg0", "neighbour", "ext4")
	w.lvm.Stain("vg0", "neighbour", "neighbour's")
	dev, err := w.mounter.Device(t.Context(), "vg0", "neighbour")
	path := w.target("neighbour")
	if err := errors.Join(err, os.Mkdir(path, 0o750), w.mounter.Mount(t.Context(), dev, "ext4", path, nil)); err != nil {
		t.Fatal(err)
	}
	w.lvm.AddForeignLV("vg0", "foreign", 32*mib)
	w.lvm.SetContents("vg0", "foreign", "xfs")
	w.lvm.Stain("vg0", "foreign", "foreign's")
	return w
}

// rest is all of a node that is not the victim's.
type rest struct {
	LVs    []lvm.LV
	Data   []string
	Mounts []string
}

func restOf(t *testing.T, w *world, vg *lvm.VG) rest {
	t.Helper()
	var r rest
	for _, lv := range vg.LVs {
		if lv.Name != "victim" {
			lv.Suspended, lv.InactiveTable = false, false // see close
			r.LVs = append(r.LVs, lv)
			r.Data = append(r.Data, w.lvm.Contents("vg0", lv.Name)+": "+strings.Join(w.lvm.Stains("vg0", lv.Name), ","))
		}
	}
	r.Mounts = mountsOf(t, w, "neighbour")
	return r
}

// rebooted is the rest after a reboot.
func (r rest) rebooted() rest {
	r.LVs, r.Mounts = slices.Clone(r.LVs), nil
	for i := range r.LVs {
		r.LVs[i].Active, r.LVs[i].Open, r.LVs[i].Major, r.LVs[i].Minor = false, false, -1, -1
	}
	return r
}

// ordinary are the calls on a volume of each kind.
func ordinary() (all []scenario) {
	for _, fs := range []string{"ext4", block} {
		v := victim{fs: fs}
		all = append(all, creation(v), staging(v), staging(v).inactive(), publishing(v), unpublishing(v), unstaging(v), expanding(v), deletion(v))
	}
	return append(all, publishing(victim{fs: "ext4", readOnly: true}), deletion(victim{fs: "ext4", erase: mounter.EraseNone}))
}

// special are those that take another way in the driver.
func special() []scenario {
	fs, raw, none := victim{fs: "ext4"}, victim{fs: block}, victim{fs: block, erase: mounter.EraseNone}
	limited := creation(victim{fs: "ext4", limit: victimSize})
	limited.name += " with a limit"
	return []scenario{
		limited, creation(fs).stranded("neighbour"), creation(raw).stranded("neighbour"), publishing(raw).inactive(),
		staging(fs).stranded("victim"), expanding(fs).stranded("victim"), expanding(raw).stranded("victim"),
		deletion(fs).stranded("victim"), deletion(fs).inactive(), deletion(none), deletion(none).inactive(),
		deletionInUse(fs), deletionInUse(raw), deletionWithoutMetadata(fs), start(fs), start(raw).inactive(), startBeside(fs).stranded("victim"),
	}
}

// alike are those that take the way of ext4.
func alike() (all []scenario) {
	for _, fs := range []string{"xfs", "btrfs"} {
		v := victim{fs: fs, readOnly: fs == "xfs"}
		all = append(all, creation(v), staging(v), publishing(v), unpublishing(v), unstaging(v), deletion(v))
		if !v.readOnly {
			all = append(all, expanding(v))
		}
	}
	return append(all, deletion(victim{fs: "ext4", erase: mounter.EraseDiscard}))
}

// inactive has the node rebooted before the call.
func (sc scenario) inactive() scenario {
	return sc.after(" after a reboot", func(w *world) { w.mounter.Reboot() })
}

// stranded has an LV suspended before the call, with a table loaded, as an lvm leaves it that died with its driver.
func (sc scenario) stranded(lv string) scenario {
	return sc.after(" while the "+lv+" is suspended", func(w *world) { w.lvm.Strand("vg0", lv) })
}

func (sc scenario) after(what string, do func(w *world)) scenario {
	sc.name += what
	prepare := sc.prepare
	sc.prepare = func(t *testing.T, w *world) {
		prepare(t, w)
		do(w)
	}
	return sc
}
