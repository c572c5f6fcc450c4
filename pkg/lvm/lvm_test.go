package lvm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
)

const mib = 1 << 20

// verbs is each change, on volumes that setUp makes.
var verbs = []struct {
	name, command string
	run           func(ctx context.Context, l *lvm.LVM) error
}{
	{"Create", "lvcreate -A n -y -W y -Z y -n new -L 4194304b --addtag t=1 --addtag t=2 vg0", func(ctx context.Context, l *lvm.LVM) error {
		return l.Create(ctx, lvm.NewLV{VG: "vg0", Name: "new", Size: 4*mib - 1, Tags: []string{"t=1", "t=2"}})
	}},
	{"Extend", "lvextend -A n -y -L 8388608b vg0/a", func(ctx context.Context, l *lvm.LVM) error {
		return l.Extend(ctx, "vg0", "a", 8*mib)
	}},
	{"Activate", "lvchange -A n -y -a y vg0/a", func(ctx context.Context, l *lvm.LVM) error {
		return l.Activate(ctx, "vg0", "a")
	}},
	{"Refresh", "lvchange -A n -y --refresh vg0/a", func(ctx context.Context, l *lvm.LVM) error {
		return l.Refresh(ctx, "vg0", "a")
	}},
	{"Retag", "lvchange -A n -y --addtag new --deltag old vg0/a", func(ctx context.Context, l *lvm.LVM) error {
		return l.Retag(ctx, "vg0", "a", "new", "old")
	}},
	{"Remove", `lvremove -A n -y -S lv_name="b" && lv_tags="t" && lv_role!="thickorigin" && lv_device_open!=1 vg0`,
		func(ctx context.Context, l *lvm.LVM) error { return l.Remove(ctx, "vg0", "b", "t") }},
	{"Backup", "vgcfgbackup vg0", func(ctx context.Context, l *lvm.LVM) error {
		return l.Backup(ctx, "vg0")
	}},
}

func setUp(t *testing.T) (*lvmtest.Fake, *lvm.LVM) {
	t.Helper()
	f := lvmtest.New()
	f.AddVG("vg0", lvmtest.VGOptions{})
	f.AddForeignLV("vg0", "a", 4*mib, "old")
	f.AddForeignLV("vg0", "b", 4*mib, "t")
	t.Cleanup(func() {
		if err := f.Check(); err != nil {
			t.Error(err)
		}
	})
	return f, lvm.New(f)
}

// words is the first two words of each command.
func words(commands []string) []string {
	var all []string
	for _, c := range commands {
		all = append(all, strings.Join(strings.Fields(c)[:2], " "))
	}
	return all
}

// What each verb sends is counted and dear: one command, and one report before the first.
func TestCommands(t *testing.T) {
	for _, v := range verbs {
		t.Run(v.name, func(t *testing.T) {
			f, l := setUp(t)
			for range 2 {
				_ = v.run(t.Context(), l) // some fail the second time
			}
			commands := f.Commands()
			if len(commands) != 3 || !strings.HasPrefix(commands[0], "fullreport ") || strings.Contains(commands[0], "--nolocking") {
				t.Fatalf("sent %q", commands)
			}
			if diff := cmp.Diff([]string{v.command, v.command}, commands[1:]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What an lvm leaves that is killed before, during or after its work is put right at once.
func TestKilled(t *testing.T) {
	for _, v := range verbs {
		for _, when := range []string{"before", "half way", "after"} {
			t.Run(v.name+" "+when, func(t *testing.T) {
				f, l := setUp(t)
				killed := false
				f.SetHook(func(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
					switch {
					case args[0] == "fullreport" || killed:
						return run()
					case when == "half way":
						f.Strand("vg0", "a")
					case when == "after":
						if _, err := run(); err != nil {
							return lvm.Output{}, err
						}
					}
					killed = true
					return lvm.Output{}, lvm.ErrUnknown
				})
				if err := v.run(t.Context(), l); !errors.Is(err, lvm.ErrUnknown) {
					t.Fatal(err)
				}
				if err := l.Backup(t.Context(), "vg0"); err != nil {
					t.Error(err)
				}
				want := []string{"fullreport --units", "vgcfgbackup vg0"}
				if when == "half way" {
					want = []string{"fullreport --units", "dmsetup clear", "lvchange -A", "vgcfgbackup vg0"}
				}
				if diff := cmp.Diff(want, words(f.Commands()[2:])); diff != "" {
					t.Errorf("after the killed command (-want +got):\n%s", diff)
				}
				if a, err := f.Report("vg0").LV("a"); err != nil || a.Suspended || a.InactiveTable {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
	}
}

func TestKilledRepairIsRepeated(t *testing.T) {
	f, l := setUp(t)
	f.Strand("vg0", "a")
	f.SetHook(func(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		if args[0] == "dmsetup" {
			return lvm.Output{}, lvm.ErrUnknown
		}
		return run()
	})
	if err := l.Backup(t.Context(), "vg0"); !errors.Is(err, lvm.ErrUnknown) {
		t.Fatal(err)
	}
	if got := words(f.Commands()); len(got) != 2 {
		t.Errorf("a change followed a repair that failed: %q", got)
	}
	f.SetHook(nil)
	if err := l.Backup(t.Context(), "vg0"); err != nil {
		t.Error(err)
	}
	if a, err := f.Report("vg0").LV("a"); err != nil || a.Suspended || a.InactiveTable {
		t.Errorf("%+v, %v", a, err)
	}
}

// LVM does not refresh an LV that has lost a PV, but its writers must not hang and other LVs be changed again.
func TestRepairOfPartialLV(t *testing.T) {
	f, l := setUp(t)
	f.Strand("vg0", "a")
	f.AddPV("vg0", 64*mib)
	f.SetMissing("vg0", f.PVs("vg0")[0], true)
	if err := l.Retag(t.Context(), "vg0", "b", "x", ""); err != nil {
		t.Error(err)
	}
	if a, err := f.Report("vg0").LV("a"); err != nil || !a.IsPartial() || a.Suspended || a.InactiveTable {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestNothingIsSentFor(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	create := func(vg, name, tag string) func(context.Context, *lvm.LVM) error {
		return func(ctx context.Context, l *lvm.LVM) error {
			return l.Create(ctx, lvm.NewLV{VG: vg, Name: name, Size: mib, Tags: []string{tag}})
		}
	}
	for _, c := range []struct {
		name string
		run  func(context.Context, *lvm.LVM) error
	}{
		{"Create in a VG without a name", create("", "x", "t")},
		{"Create in a VG that is a path", create("vg0/a", "x", "t")},
		{"Create of a reserved name", create("vg0", "a_rmeta_0", "t")},
		{"Create of an option", create("vg0", "--yes", "t")},
		{"Create with a bad tag", create("vg0", "x", "a b")},
		{"Create with an empty tag", create("vg0", "x", "")},
		{"Extend of all", func(ctx context.Context, l *lvm.LVM) error { return l.Extend(ctx, "vg0", "", mib) }},
		{"Extend beyond LVM's counting", func(ctx context.Context, l *lvm.LVM) error { return l.Extend(ctx, "vg0", "a", 1<<54+8*mib) }},
		{"Activate of all", func(ctx context.Context, l *lvm.LVM) error { return l.Activate(ctx, "vg0", "") }},
		{"Activate of a path", func(ctx context.Context, l *lvm.LVM) error { return l.Activate(ctx, "vg0", "../b") }},
		{"Activate in an option", func(ctx context.Context, l *lvm.LVM) error { return l.Activate(ctx, "--select", "a") }},
		{"Retag with an option", func(ctx context.Context, l *lvm.LVM) error { return l.Retag(ctx, "vg0", "a", "-x", "") }},
		{"Retag of a bad tag", func(ctx context.Context, l *lvm.LVM) error { return l.Retag(ctx, "vg0", "a", "", "a,b") }},
		{"Remove of all", func(ctx context.Context, l *lvm.LVM) error { return l.Remove(ctx, "vg0", "", "t") }},
		{"Remove without a tag", func(ctx context.Context, l *lvm.LVM) error { return l.Remove(ctx, "vg0", "b", "") }},
		{"Remove of a selection", func(ctx context.Context, l *lvm.LVM) error { return l.Remove(ctx, "vg0", `b" || lv_name="a`, "t") }},
		{"Remove by a selection", func(ctx context.Context, l *lvm.LVM) error { return l.Remove(ctx, "vg0", "b", `t" || lv_name="a`) }},
		{"Backup of all", func(ctx context.Context, l *lvm.LVM) error { return l.Backup(ctx, "") }},
		{"Report of all", func(ctx context.Context, l *lvm.LVM) error { _, err := l.Report(ctx, ""); return err }},
		{"a context that has ended", func(_ context.Context, l *lvm.LVM) error { return l.Backup(ended, "vg0") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, l := setUp(t)
			if err := c.run(t.Context(), l); err == nil || errors.Is(err, lvm.ErrUnknown) {
				t.Errorf("error %v", err)
			}
			if sent := f.Commands(); len(sent) != 0 {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

// VGs do not wait for each other.
func TestTurnsOfTwoVGs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := setUp(t)
		f.AddVG("vg1", lvmtest.VGOptions{})
		release := make(chan struct{})
		f.SetHook(func(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
			if args[0] == "vgcfgbackup" && args[1] == "vg0" {
				<-release
			}
			return run()
		})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- l.Backup(context.Background(), "vg0") }()
		synctest.Wait()
		go func() { second <- l.Backup(context.Background(), "vg0") }()
		synctest.Wait()
		if err := l.Backup(t.Context(), "vg1"); err != nil {
			t.Error(err)
		}
		if got := words(f.Commands()); len(got) != 4 { // vg0's report and change, and vg1's: the second of vg0 waits
			t.Errorf("sent %q", got)
		}
		close(release)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}
