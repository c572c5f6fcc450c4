package lvmtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
)

// Env is a node for one run of the contract: fake, or a real one. What it cannot do fails t. It undoes
// everything when t ends.
type Env interface {
	Runner() lvm.Runner
	// VG makes a VG. PVs hold as many bytes as asked for.
	VG(t *testing.T, name string, o VGOptions)
	// Unplug takes the n-th PV away until back is called. No active LV is on it.
	Unplug(t *testing.T, vg string, n int) (back func())
	// ForeignLV makes an active LV of somebody else's.
	ForeignLV(t *testing.T, vg, name string, size int64)
	// Snapshot makes a thick snapshot.
	Snapshot(t *testing.T, vg, origin, name string)
	Deactivate(t *testing.T, vg, lv string)
	Open(t *testing.T, vg, lv string) (close func())
	// Strand leaves a device suspended, and with an inactive table that would break it.
	Strand(t *testing.T, vg, lv string)
	// LoadTable leaves a device working, but with such a table.
	LoadTable(t *testing.T, vg, lv string)
	// Lock takes LVM's lock of a VG, as a change by another process does.
	Lock(t *testing.T, vg string) (unlock func())
	// Format makes a filesystem, and Signature says what can be recognized on a device, "" for nothing.
	Format(t *testing.T, vg, lv string)
	Signature(t *testing.T, vg, lv string) string
	// Write puts a word on a device, and Read finds it again, or fails if IO does or does not end.
	Write(t *testing.T, vg, lv, word string)
	Read(t *testing.T, vg, lv string) (word string, err error)
}

// Contract is what pkg/lvm promises, with each Env that env makes.
func Contract(t *testing.T, env func(t *testing.T) Env) {
	for _, group := range []struct {
		name  string
		cases []contractCase
	}{
		{"report", reportCases}, {"create", createCases}, {"extend", extendCases}, {"retag", retagCases}, {"remove", removeCases},
		{"metadata", metadataCases}, {"missing", missingCases}, {"repair", repairCases}, {"turn", turnCases}, {"names", nameCases},
	} {
		for _, c := range group.cases {
			t.Run(group.name+"/"+c.name, func(t *testing.T) {
				e := env(t)
				rec := &recorder{Runner: e.Runner(), more: make(chan struct{})}
				c.run(&suite{T: t, Env: e, rec: rec, l: lvm.New(rec), ctx: t.Context()})
			})
		}
	}
}

type contractCase struct {
	name string
	run  func(s *suite)
}

// suite is what a case works with.
type suite struct {
	*testing.T
	Env
	rec *recorder
	l   *lvm.LVM
	ctx context.Context
}

const (
	mib = int64(1) << 20
	tag = "contract/id=1"
)

var (
	vgsMu sync.Mutex
	vgs   int
)

// newVG makes a VG with a name that no other case has.
func (s *suite) newVG(o VGOptions) string {
	s.Helper()
	vgsMu.Lock()
	vgs++
	name := fmt.Sprintf("ct%d", vgs)
	vgsMu.Unlock()
	if len(o.PVs) == 0 {
		o.PVs = []int64{64 * mib}
	}
	s.VG(s.T, name, o)
	return name
}

// create makes an LV that the case is not about.
func (s *suite) create(vg, name string, size int64, tags ...string) {
	s.Helper()
	if err := s.l.Create(s.ctx, lvm.NewLV{VG: vg, Name: name, Size: size, Tags: tags}); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) report(vg string) *lvm.VG {
	s.Helper()
	report, err := s.l.Report(s.ctx, vg)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

func (s *suite) lv(vg, name string) *lvm.LV {
	s.Helper()
	lv, err := s.report(vg).LV(name)
	if err != nil {
		s.Fatal(err)
	}
	return lv
}

// names lists the LVs of a VG, joined.
func (s *suite) names(vg string) string {
	s.Helper()
	var names []string
	for _, lv := range s.report(vg).LVs {
		names = append(names, lv.Name)
	}
	return strings.Join(names, " ")
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// recorder counts commands as they are started.
type recorder struct {
	lvm.Runner
	mu       sync.Mutex
	commands []string
	more     chan struct{} // closed and made anew with each command
}

// Run implements lvm.Runner.
func (r *recorder) Run(ctx context.Context, args ...string) (lvm.Output, error) {
	r.mu.Lock()
	r.commands = append(r.commands, strings.Join(args, " "))
	close(r.more)
	r.more = make(chan struct{})
	r.mu.Unlock()
	return r.Runner.Run(ctx, args...)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.commands)
}

// wait returns when n commands have been started.
func (r *recorder) wait(n int) {
	for {
		r.mu.Lock()
		enough, more := len(r.commands) >= n, r.more
		r.mu.Unlock()
		if enough {
			return
		}
		<-more
	}
}
