package lvmtest

import (
	"errors"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

func TestContract(t *testing.T) {
	Contract(t, func(t *testing.T) Env {
		f := New()
		t.Cleanup(func() {
			if err := f.Check(); err != nil {
				t.Error(err)
			}
		})
		return fakeEnv{f}
	})
}

// fakeEnv is the Env of a Fake.
type fakeEnv struct{ f *Fake }

func (e fakeEnv) Runner() lvm.Runner { return e.f }

func (e fakeEnv) VG(_ *testing.T, name string, o VGOptions) { e.f.AddVG(name, o) }

func (e fakeEnv) Unplug(_ *testing.T, vg string, n int) func() {
	pv := e.f.PVs(vg)[n]
	e.f.SetMissing(vg, pv, true)
	return func() { e.f.SetMissing(vg, pv, false) }
}

func (e fakeEnv) ForeignLV(_ *testing.T, vg, name string, size int64) {
	e.f.AddForeignLV(vg, name, size)
}

func (e fakeEnv) Snapshot(_ *testing.T, vg, origin, name string) { e.f.AddSnapshot(vg, origin, name) }

func (e fakeEnv) Deactivate(_ *testing.T, vg, lv string) { e.f.Deactivate(vg, lv) }

func (e fakeEnv) Open(t *testing.T, vg, lv string) func() {
	end, err := e.f.Open(vg, lv, true)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func (e fakeEnv) Strand(_ *testing.T, vg, lv string) { e.f.Strand(vg, lv) }

func (e fakeEnv) LoadTable(_ *testing.T, vg, lv string) { e.f.LoadTable(vg, lv) }

func (e fakeEnv) Lock(_ *testing.T, vg string) func() { return e.f.LockVG(vg) }

func (e fakeEnv) Format(_ *testing.T, vg, lv string) { e.f.SetContents(vg, lv, "btrfs") }

func (e fakeEnv) Signature(_ *testing.T, vg, lv string) string { return e.f.Contents(vg, lv) }

func (e fakeEnv) Write(_ *testing.T, vg, lv, word string) { e.f.Stain(vg, lv, word) }

func (e fakeEnv) Read(_ *testing.T, vg, lv string) (string, error) {
	d, ok := e.f.Device(vg, lv)
	if !ok || d.Suspended {
		return "", errors.New("no IO")
	}
	for _, s := range e.f.Stains(vg, lv) {
		return s, nil
	}
	return "", nil
}
