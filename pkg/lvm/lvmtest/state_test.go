package lvmtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

func TestFakeIsStrict(t *testing.T) {
	for _, c := range []struct {
		name, args string
		code       int
	}{
		{"no such command", "lvfoo vg0", 2},
		{"an unknown option", "lvcreate --foo vg0", 3},
		{"an option of another command", "lvextend -A n -y -Z y -L 512b vg0/a", 3},
		{"an option without its value", "lvcreate -n", 3},
		{"nothing to work on", "lvextend -A n -y -L 512b", 3},
		{"a VG where an LV is meant", "lvextend -A n -y -L 512b vg0", 3},
		{"an LV where a VG is meant", "vgcfgbackup vg0/a", 3},
		{"an LV without a name", "lvchange -A n -y -a y vg0/", 3},
		{"two LVs", "lvchange -A n -y -a y vg0/a vg0/b", 3},
		{"removing everything", "lvremove -A n -y vg0", 3},
		{"nothing to change", "lvchange -A n -y vg0/a", 3},
		{"a size without a unit", "lvcreate -n b -L 512 vg0", 3},
		{"half a sector", "lvcreate -n b -L 100b vg0", 3},
		{"no size", "lvcreate -n b -L 0b vg0", 3},
		{"an unknown field", "fullreport --units b --nosuffix --binary --configreport lv -o lv_foo vg0", 5},
		{"a field of another report", "fullreport --units b --nosuffix --binary --configreport vg -o lv_name vg0", 5},
		{"selecting by an unknown field", "lvremove -A n -y -S lv_foo=x vg0", 5},
		{"no such device", "dmsetup clear vg0-x", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := New()
			f.AddVG("vg0", VGOptions{})
			f.AddForeignLV("vg0", "a", 4*mib)
			out, err := f.Run(t.Context(), strings.Fields(c.args)...)
			if err != nil || out.Code != c.code || len(out.Log) == 0 {
				t.Errorf("%+v, %v", out, err)
			}
			if len(f.Report("vg0").LVs) != 1 {
				t.Error("it had an effect")
			}
		})
	}
}

// What was written to extents is there for the next owner, unless it was erased.
func TestStainsOutliveTheirLV(t *testing.T) {
	f := New()
	f.AddVG("vg0", VGOptions{})
	l := lvm.New(f)
	create := func(name string) {
		t.Helper()
		if err := l.Create(t.Context(), lvm.NewLV{VG: "vg0", Name: name, Size: 1 << 30, Tags: []string{tag}}); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	f.SetContents("vg0", "a", "ext4")
	f.Stain("vg0", "a", "secret")
	if err := l.Remove(t.Context(), "vg0", "a", tag); err != nil {
		t.Fatal(err)
	}
	create("b")
	if diff := cmp.Diff([]string{"secret"}, f.Stains("vg0", "b")); diff != "" || f.Contents("vg0", "b") != "" {
		t.Errorf("contents %q, stains (-want +got):\n%s", f.Contents("vg0", "b"), diff)
	}
	f.Erase("vg0", "b")
	if stains := f.Stains("vg0", "b"); len(stains) != 0 {
		t.Errorf("after erasing: %q", stains)
	}
}

func TestOpen(t *testing.T) {
	f := New()
	f.AddVG("vg0", VGOptions{})
	f.AddForeignLV("vg0", "a", 4*mib)
	before, _ := f.Device("vg0", "a")
	first, err := f.Open("vg0", "a", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open("vg0", "a", true); !errors.Is(err, ErrBusy) {
		t.Errorf("a second mount: %v", err)
	}
	plain, err := f.Open("vg0", "a", false)
	if err != nil {
		t.Fatal(err)
	}
	first()
	first()
	if d, _ := f.Device("vg0", "a"); d.Opens != 1 {
		t.Errorf("%+v", d)
	}
	plain()
	end, err := f.Open("vg0", "a", true)
	if err != nil {
		t.Error(err)
	}
	f.Reboot()
	if _, ok := f.Device("vg0", "a"); ok {
		t.Error("active after a reboot")
	}
	if _, err := f.Open("vg0", "a", false); !errors.Is(err, ErrNoDevice) {
		t.Errorf("inactive: %v", err)
	}
	if err := lvm.New(f).Activate(t.Context(), "vg0", "a"); err != nil {
		t.Fatal(err)
	}
	end() // of the device before the reboot
	after, ok := f.Device("vg0", "a")
	if !ok || after.Opens != 0 || after.ID == before.ID || after.UUID != before.UUID || after.Size != 4*mib {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestCheckFindsTwoChangesAtOnce(t *testing.T) {
	f := New()
	f.AddVG("vg0", VGOptions{})
	running, release := make(chan struct{}), make(chan struct{})
	f.SetHook(func(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
		close(running)
		<-release
		return lvm.Output{}, nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = f.Run(context.Background(), "vgcfgbackup", "vg0") })
	<-running
	f.SetHook(nil)
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	f.beginChange("vg0", []string{"lvcreate"})()
	close(release)
	wg.Wait()
	if err := f.Check(); err == nil {
		t.Error("not noticed")
	}
}
