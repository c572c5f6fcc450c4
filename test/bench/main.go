// Command bench times each CSI call beside the very same lvm, mkfs and mount commands run by hand, in one boot of the VM, and
// counts the lvm commands. It runs in the VM: make bench.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/socket"
	"github.com/lvm-csi/lvm-csi/test/node"
)

const (
	rounds = 20
	warmUp = 2 // rounds before them, which are left out: the driver's first change looks at the VG first
	mib    = int64(1) << 20
	// limit is what the driver may add of its own, in per cent.
	limit = 15
)

func main() {
	if err := bench(context.Background()); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

// recorder runs lvm commands and keeps them, so that the very same can be run by hand.
type recorder struct {
	lvm.Process
	mu       sync.Mutex
	commands [][]string
}

func (r *recorder) Run(ctx context.Context, args ...string) (lvm.Output, error) {
	r.mu.Lock()
	r.commands = append(r.commands, args)
	r.mu.Unlock()
	return r.Process.Run(ctx, args...)
}

// take returns what was run since the last take.
func (r *recorder) take() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	commands := r.commands
	r.commands = nil
	return commands
}

// operation is one line of the table.
type operation struct {
	name   string
	driver func(i int) error
	hand   func(i int, lvm [][]string) error // lvm is what the driver runs
	times  [2][]time.Duration
	lvm    [][]string // the driver's lvm commands in the last round of the warm-up
}

func bench(ctx context.Context) error {
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	dir := "/data"
	if err := prepare(dir); err != nil {
		return err
	}
	vg, err := node.NewVG(dir, "bench", []int64{8 << 30})
	if err != nil {
		return err
	}
	rec := &recorder{}
	client, err := serve(ctx, dir, rec)
	if err != nil {
		return err
	}
	b := &run{ctx: ctx, client: client, rec: rec, vg: vg.Name, dir: filepath.Join(dir, "hand"), volumes: map[string]*node.Volume{}}
	operations := b.operations()
	for i := range warmUp + rounds {
		for _, op := range operations {
			if err := b.round(op, i); err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
		}
		fmt.Printf("\rround %d of %d", i+1, warmUp+rounds)
	}
	fmt.Print("\n\n")
	if err := vg.Remove(); err != nil {
		return err
	}
	return table(operations)
}

// prepare puts a filesystem on the VM's disk: VGs are on loop devices there.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, words := range [][]string{{"modprobe", "loop"}, {"mkfs.ext4", "-q", "-O", "^has_journal", "/dev/vdb"}, {"mount", "/dev/vdb", dir}} {
		if _, err := node.Run(words...); err != nil {
			return err
		}
	}
	return nil
}

func serve(ctx context.Context, dir string, rec *recorder) (*node.Client, error) {
	path := filepath.Join(dir, "csi.sock")
	var listener net.Listener
	listener, err := socket.Listen(path)
	if err != nil {
		return nil, err
	}
	d := driver.New(driver.Config{Name: "lvm-csi.io", NodeID: "node-1", DefaultVG: "bench"}, lvm.New(rec), mounter.New(nil))
	d.Start(ctx)
	go func() {
		if err := d.Serve(ctx, listener); err != nil {
			fmt.Println(err)
		}
	}()
	return node.Dial(path, filepath.Join(dir, "driver"))
}

// round times an operation by the driver and by hand, on a volume each. Which comes first alternates.
func (b *run) round(op *operation, i int) error {
	both := []func() error{
		func() error {
			b.rec.take()
			took, err := timed(func() error { return op.driver(i) })
			op.times[0] = append(op.times[0], took)
			if i < warmUp {
				op.lvm = b.rec.take()
			}
			return err
		},
		func() error {
			commands := b.byHand(op.lvm, i)
			took, err := timed(func() error { return op.hand(i, commands) })
			op.times[1] = append(op.times[1], took)
			return err
		},
	}
	if i >= warmUp && i%2 == 1 {
		slices.Reverse(both)
	}
	for _, do := range both {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func timed(do func() error) (time.Duration, error) {
	begin := time.Now()
	err := do()
	return time.Since(begin), err
}

// table prints the medians, and what the driver adds: the median of each round's ratio, so that a machine which gets slower or
// faster meanwhile does both sides alike. It fails when the driver adds more than the limit.
func table(operations []*operation) error {
	fmt.Printf("%-28s %10s %10s %8s   %s\n", fmt.Sprintf("median of %d, one boot", rounds), "driver", "by hand", "adds", "lvm commands")
	var over []string
	for _, op := range operations {
		d, h := median(op.times[0][warmUp:]), median(op.times[1][warmUp:])
		adds := 100 * (medianRatio(op.times[0][warmUp:], op.times[1][warmUp:]) - 1)
		fmt.Printf("%-28s %7d ms %7d ms %+7.1f%%   %d %s\n", op.name, d.Milliseconds(), h.Milliseconds(), adds, len(op.lvm), verbs(op.lvm))
		if adds > limit {
			over = append(over, op.name)
		}
	}
	if len(over) > 0 {
		return fmt.Errorf("the driver adds more than %d %% in %s", limit, strings.Join(over, ", "))
	}
	return nil
}

func medianRatio(driver, hand []time.Duration) float64 {
	var ratios []float64
	for i := range driver {
		ratios = append(ratios, float64(driver[i])/float64(hand[i]))
	}
	slices.Sort(ratios)
	return (ratios[len(ratios)/2] + ratios[(len(ratios)-1)/2]) / 2
}

func verbs(commands [][]string) string {
	var all []string
	for _, c := range commands {
		all = append(all, c[0])
	}
	return strings.Join(all, ", ")
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return (times[len(times)/2] + times[(len(times)-1)/2]) / 2
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
