// Command demo-csi walks one volume through its life on a real volume group, with real CSI calls, and shows after each
// what LVM and the kernel say. In the middle it cuts its machine's power. It runs in the VM: make demo-csi.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-csi/lvm-csi/test/node"
)

const (
	vg   = "vg0"
	disk = "/dev/vdb"
	name = "pvc-5f2c9a1e-demo"
	gib  = int64(1) << 30
)

func main() {
	walk := firstBoot
	if os.Getenv("VM_BOOT") == "2" {
		walk = secondBoot
	}
	if err := walk(context.Background()); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

// start makes the driver serve on vg0.
func start() (*node.Driver, error) {
	dir := "/run/demo"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "driver.log"))
	if err != nil {
		return nil, err
	}
	return node.StartDriver("./lvm-csi", dir, "", log, "--default-volume-group", vg, "-v", "4")
}

func firstBoot(ctx context.Context) error {
	say("A machine with an empty disk. What an administrator does, once:")
	if err := show("vgcreate", vg, disk); err != nil {
		return err
	}
	say("lvm-csi starts, and says what the volume group holds.")
	d, err := start()
	if err != nil {
		return err
	}
	var v *node.Volume
	if err := capacity(ctx, d); err != nil {
		return err
	}
	if err := call("CreateVolume "+name+", 1 GiB, ext4", func() (err error) { v, err = d.Create(ctx, name, "ext4", gib, nil); return err }); err != nil {
		return err
	}
	lv := vg + "/" + name
	if err := errors.Join(detail("volume ID", v.ID), see("lvs", "-o", "lv_name,lv_size,lv_attr,lv_tags", lv), see("lsblk", "-o", "NAME,SIZE,FSTYPE", disk)); err != nil {
		return err
	}
	if err := call("NodeStageVolume: check and mount, never format", func() error { return v.Stage(ctx) }); err != nil {
		return err
	}
	if err := see("findmnt", "-o", "SOURCE,FSTYPE,SIZE,OPTIONS", v.Staging()); err != nil {
		return err
	}
	if err := call("NodePublishVolume: a pod sees it", func() error { return v.Publish(ctx) }); err != nil {
		return err
	}
	if err := see("findmnt", "-o", "TARGET,SOURCE", v.Target()); err != nil {
		return err
	}
	say("The pod writes, and goes on writing from here on.")
	if err := os.WriteFile(filepath.Join(v.Target(), "letter"), []byte("still here\n"), 0o644); err != nil {
		return err
	}
	load := startLoad(v.Target())
	if err := stats(ctx, d, v); err != nil {
		return err
	}
	before := load.count.Load()
	if err := call("NodeExpandVolume to 2 GiB, under the pod's writes", func() error { return v.Expand(ctx, 2*gib) }); err != nil {
		return err
	}
	if err := errors.Join(detail("writes meanwhile", fmt.Sprint(load.count.Load()-before)), see("df", "-h", v.Target())); err != nil {
		return err
	}
	if err := load.stop(); err != nil {
		return err
	}
	var refusal error
	if err := call("DeleteVolume while it is mounted: refused", func() error {
		refusal = v.Delete(ctx)
		return want(refusal, codes.FailedPrecondition)
	}); err != nil {
		return err
	}
	if err := errors.Join(detail("the driver", status.Convert(refusal).Message()), capacity(ctx, d), see("sync")); err != nil {
		return err
	}
	say("Now the power fails. (The VM is killed, and boots again with the same disk.)")
	return node.PowerCut()
}

func secondBoot(ctx context.Context) error {
	say("The machine is back. All the driver ever knew is in LVM:")
	if err := see("lvs", "-o", "lv_name,lv_size,lv_attr,lv_active", vg); err != nil {
		return err
	}
	d, err := start()
	if err != nil {
		return err
	}
	var v *node.Volume
	if err := call("CreateVolume again, as a retry: the same volume", func() (err error) { v, err = d.Create(ctx, name, "ext4", gib, nil); return err }); err != nil {
		return err
	}
	if err := detail("volume ID", v.ID); err != nil {
		return err
	}
	if err := call("NodeStageVolume and NodePublishVolume", func() error { return v.Mount(ctx) }); err != nil {
		return err
	}
	letter, err := os.ReadFile(filepath.Join(v.Target(), "letter"))
	if err != nil {
		return err
	}
	if err := errors.Join(detail("the letter", strings.TrimSpace(string(letter))), see("df", "-h", v.Target())); err != nil {
		return err
	}
	if err := call("NodeUnpublishVolume and NodeUnstageVolume", func() error { return v.Unmount(ctx) }); err != nil {
		return err
	}
	if err := call("DeleteVolume: zeroed, then removed", func() error { return v.Delete(ctx) }); err != nil {
		return err
	}
	if err := errors.Join(see("lvs", vg), capacity(ctx, d)); err != nil {
		return err
	}
	if err := d.Stop(); err != nil {
		return err
	}
	say("That was a volume's life. Next: make test, make bench, or make sanity VG=<a volume group of yours>.")
	return nil
}

var step int

// call times one CSI call and prints it.
func call(what string, do func() error) error {
	step++
	begin := time.Now()
	err := do()
	fmt.Printf("\n%2d. %-60s %6d ms\n", step, what, time.Since(begin).Milliseconds())
	return err
}

func say(text string) { fmt.Printf("\n%s\n", text) }

func detail(what, text string) error {
	fmt.Printf("      %s: %s\n", what, text)
	return nil
}

// show runs a command as an administrator would, with its output.
func show(words ...string) error {
	fmt.Printf("      # %s\n", strings.Join(words, " "))
	return output(words)
}

// see asks LVM or the kernel.
func see(words ...string) error {
	fmt.Printf("      $ %s\n", strings.Join(words, " "))
	return output(words)
}

func output(words []string) error {
	out, err := node.Run(words...)
	for line := range strings.Lines(out) {
		fmt.Printf("        %s\n", strings.TrimRight(line, "\n"))
	}
	return err
}

func capacity(ctx context.Context, d *node.Driver) error {
	var resp *csi.GetCapacityResponse
	err := call("GetCapacity", func() (err error) { resp, err = d.GetCapacity(ctx, &csi.GetCapacityRequest{}); return err })
	return errors.Join(err, detail("available", fmt.Sprintf("%d MiB", resp.GetAvailableCapacity()>>20)))
}

func stats(ctx context.Context, d *node.Driver, v *node.Volume) error {
	var resp *csi.NodeGetVolumeStatsResponse
	err := call("NodeGetVolumeStats: no process is started", func() (err error) {
		resp, err = d.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target()})
		return err
	})
	for _, u := range resp.GetUsage() {
		err = errors.Join(err, detail(strings.ToLower(u.GetUnit().String()), fmt.Sprintf("%d total, %d used, %d available", u.GetTotal(), u.GetUsed(), u.GetAvailable())))
	}
	return err
}

// want is nil when err has the code.
func want(err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("got %w, want %s", err, code)
	}
	return nil
}

// load writes files without end, each synced.
type load struct {
	count atomic.Int64
	stop  func() error
}

func startLoad(dir string) *load {
	l := &load{}
	quit, done := make(chan struct{}), make(chan error, 1)
	l.stop = func() error { close(quit); return <-done }
	go func() {
		block := []byte(strings.Repeat("x", 64<<10))
		for {
			select {
			case <-quit:
				done <- nil
				return
			default:
			}
			file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY, 0o644)
			if err == nil {
				_, e := file.Write(block)
				err = errors.Join(e, file.Sync(), file.Close())
			}
			if err != nil {
				done <- fmt.Errorf("the pod's write failed: %w", err)
				return
			}
			l.count.Add(1)
		}
	}()
	return l
}
