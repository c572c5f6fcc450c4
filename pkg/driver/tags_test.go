package driver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// names that CSI allows, beside each other: what tells two of them apart must survive in tags and LV names.
var oddNames = []string{
	"a", "A", "pvc-1", "pvc_1", "pvc.1", "pvc+1", "pvc 1", "pvc=1", "pvc=201", "pvc=3d1", "pvc==201", "=", "==", "%", "=25", "=4", "=4G", "=+1",
	"-a", "--", ".", "..", "...", "/", "a/b", "a:b", "a,b", `a"b`, "a'b", "a&b", "a#b", "a@b", "a\nb", "a\x00b", "a\tb",
	"é", "e\u0301", "ф", "卷", "\U0001f4be", "\u202eevil", "\xff\xfe", "snapshot", "snapshot-1", "pvmove0", "x_rmeta_1", "x_tdata", "csi-", "volume.in", "volume.out", ".in",
	strings.Repeat("n", 128), strings.Repeat("n", 127) + "m", strings.Repeat("é", 64), strings.Repeat("\U0001f4be", 32), strings.Repeat("-", 128),
	"csi-" + strings.Repeat("0", 32),
}

func TestNameTags(t *testing.T) {
	seen := map[string]string{}
	for _, name := range oddNames {
		tag := encode(name)
		if err := lvm.CheckTag("x/name=" + tag); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if other, twice := seen[tag]; twice {
			t.Errorf("%q and %q are both written %q", name, other, tag)
		}
		seen[tag] = name
		if got, err := decode(tag); err != nil || got != name {
			t.Errorf("%q is written %q and read %q, %v", name, tag, got, err)
		}
	}
}

// What encode does not write is no name: else two tags would be one name.
func TestNameTagsThatNobodyWrote(t *testing.T) {
	for _, tag := range []string{"=", "=4", "=4G", "=G4", "=+1", "=2", "a=", "=C3=A9", "=41", "a+b"} {
		if name, err := decode(tag); err == nil {
			t.Errorf("%q is read as %q, which is written %q", tag, name, encode(name))
		}
	}
}

func FuzzNameTag(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := decode(encode(name))
		if err != nil || got != name {
			t.Errorf("%q is written %q and read %q, %v", name, encode(name), got, err)
		}
		if err := lvm.CheckLVName(lvName(name)); err != nil {
			t.Error(err)
		}
	})
}

func TestLVNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range oddNames {
		lv := lvName(name)
		if err := lvm.CheckLVName(lv); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if strings.HasSuffix(lv, ".in") || strings.HasSuffix(lv, ".out") {
			t.Errorf("%q: LV name %s is kept for volumes on the move", name, lv)
		}
		if other, twice := seen[lv]; twice {
			t.Errorf("%q and %q are both LV %s", name, other, lv)
		}
		seen[lv] = name
	}
	if name := "pvc-6c8a2c94-2a1b-4f0e-9d3c-0123456789ab"; lvName(name) != name { // as the provisioner names them
		t.Errorf("LV name of %q is %q", name, lvName(name))
	}
}

func TestRecords(t *testing.T) {
	tags := tagger{"lvm-csi.io"}
	for name, want := range map[string]record{
		"block":    {id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: block, erase: mounter.EraseZero},
		"creating": {id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: "xfs", erase: mounter.EraseNone, state: creating},
		"deleting": {id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: "btrfs", erase: mounter.EraseDiscard, state: deleting},
	} {
		t.Run(name, func(t *testing.T) {
			lv := &lvm.LV{Name: "pvc-1", Tags: append([]string{"somebody's", "other-driver/v=1", "other-driver/name=x"}, tags.write(want)...)}
			got, ok := tags.read(lv)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); !ok || diff != "" {
				t.Errorf("%t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestLVsThatAreNoVolumes(t *testing.T) {
	tags := tagger{"lvm-csi.io"}
	written := tags.write(record{id: "vg0/pvc-1:35971be6", name: "pvc-1", fs: block, erase: mounter.EraseZero})
	for name, lv := range map[string]lvm.LV{
		"no tags":                         {Name: "pvc-1"},
		"a RAID image that a kill left":   {Name: "pvc-1_rmeta_0", Tags: written}, // with its LV's tags
		"a snapshot with its LV's tags":   {Name: "backup", Tags: written},
		"another driver's":                {Name: "pvc-1", Tags: tagger{"lvm-csi.io.other"}.write(record{name: "pvc-1"})},
		"a format of a later release":     {Name: "pvc-1", Tags: []string{"lvm-csi.io/v=2", "lvm-csi.io/name=pvc-1"}},
		"no format":                       {Name: "pvc-1", Tags: []string{"lvm-csi.io/name=pvc-1"}},
		"a name that nobody wrote":        {Name: "pvc-1", Tags: []string{"lvm-csi.io/v=1", "lvm-csi.io/name=pvc=2d1=4"}},
		"the driver's name without a key": {Name: "pvc-1", Tags: []string{"lvm-csi.io", "lvm-csi.io/"}},
	} {
		t.Run(name, func(t *testing.T) {
			if r, ok := tags.read(&lv); ok {
				t.Errorf("it is taken for volume %+v", r)
			}
		})
	}
}

// csi-sanity's names have 128 characters; CSI allows any UTF-8.
func TestOddNamesAreVolumes(t *testing.T) {
	w := newWorld(t)
	w.warm(t)
	for _, name := range oddNames {
		id := w.create(t, name, block, 4*mib)
		if again := w.create(t, name, block, 4*mib); again != id {
			t.Errorf("%q is %s and then %s", name, id, again)
		}
		fails(t, w.d, (*Driver).CreateVolume, createRequest(name, block, 8*mib), codes.AlreadyExists)
	}
	if got := len(w.names("vg0")); got != len(oddNames) {
		t.Errorf("%d names made %d LVs", len(oddNames), got)
	}
}
