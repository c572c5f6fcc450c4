package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// chaos is a node whose lvm fails at random, whose calls time out and whose driver is restarted at random, and what callers have been
// told: of that nothing may ever be untrue.
type chaos struct {
	*world
	t       *testing.T
	random  *rand.Rand // of the callers
	volumes []*promised

	mu     sync.Mutex // guards what commands use, some of which nobody waits for
	luck   *rand.Rand
	faults bool
}

// promised is a volume as its callers know it. What is unknown to them may be either way.
type promised struct {
	id, name, fs string
	exists       bool  // CreateVolume has succeeded, and DeleteVolume was not called since
	gone         bool  // DeleteVolume has succeeded, and CreateVolume was not called since
	published    bool  // so has NodePublishVolume, and nothing undid it
	size         int64 // at least
	data         string
}

func TestChaos(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Hour) }) // what nobody waits for ends too
				c := &chaos{world: newWorld(t, withReserve(gib)), t: t, faults: true,
					random: rand.New(rand.NewPCG(seed, 0)), luck: rand.New(rand.NewPCG(seed, 1))}
				c.lvm.AddForeignLV("vg0", "theirs", 64*mib)
				c.lvm.Stain("vg0", "theirs", "their data")
				for n := range 4 {
					name := fmt.Sprint("v", n)
					c.volumes = append(c.volumes, &promised{id: "vg0/" + name + ":35971be6", name: name, fs: []string{block, "ext4"}[n%2]})
				}
				c.lvm.SetHook(c.hook)
				for range 100 {
					c.step()
					c.check()
				}
				c.mu.Lock()
				c.faults = false
				c.mu.Unlock()
				c.restart(t)
				c.d.Start(t.Context())
				for _, v := range c.volumes { // every retry ends well
					c.create(v)
					c.publish(v)
					c.expand(v)
					c.check()
					c.unpublish(v)
					c.remove(v)
					c.check()
					if !v.gone {
						t.Errorf("%s could not be deleted", v.id)
					}
				}
				if got := c.names("vg0"); !slices.Equal(got, []string{"theirs"}) {
					t.Errorf("left: %q", got)
				}
			})
		})
	}
}

// hook lets one command in six fail.
func (c *chaos) hook(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
	c.mu.Lock()
	fault := 99
	if c.faults {
		fault = c.luck.IntN(24)
	}
	c.mu.Unlock()
	switch fault {
	case 0:
		return killed(ctx, args, run)
	case 1:
		return lost(ctx, args, run)
	case 2:
		return answer(5)(ctx, args, run)
	case 3:
		time.Sleep(12 * time.Second) // longer than a call waits
	case 4: // killed between its change of the metadata and that of the device
		if args[0] == "lvextend" || args[0] == "lvchange" {
			if _, lv := lvOf(args[len(args)-1]); c.active(lv) {
				_, _ = run()
				if c.active(lv) {
					c.lvm.Strand("vg0", lv)
				}
			}
			return killed(ctx, args, run)
		}
	case 5:
		if args[0] != "fullreport" {
			return answer(5, "Error writing device /dev/sdb at 0 length 4096: write failed.")(ctx, args, run)
		}
	}
	return run()
}

func (c *chaos) active(lv string) bool {
	_, ok := c.lvm.Device("vg0", lv)
	return ok
}

func (c *chaos) step() {
	v := c.volumes[c.random.IntN(len(c.volumes))]
	switch c.random.IntN(12) {
	case 0, 1, 2:
		c.create(v)
	case 3, 4:
		c.publish(v)
	case 5:
		c.unpublish(v)
	case 6:
		c.expand(v)
	case 7, 8:
		c.remove(v)
	case 9:
		c.restart(c.t)
	case 10:
		c.restart(c.t)
		c.d.Start(c.t.Context())
	case 11:
		if c.random.IntN(4) == 0 {
			c.reboot(c.t)
			for _, v := range c.volumes {
				v.published = false
			}
		}
	}
}

// call makes one call with a deadline, and while nothing fails as many as a caller makes.
func chaosCall[Q, R any](c *chaos, method func(*Driver, context.Context, Q) (R, error), req Q) bool {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		_, err := rpc(ctx, c.d, method, req)
		cancel()
		switch {
		case err == nil:
			return true
		case c.faults:
			return false
		case try == 5:
			c.t.Errorf("%T: %v", req, err)
			return false
		}
		time.Sleep(30 * time.Second)
	}
}

func (c *chaos) create(v *promised) {
	v.gone = false
	if !chaosCall(c, (*Driver).CreateVolume, createRequest(v.name, v.fs, 64*mib)) || v.exists {
		return
	}
	v.exists, v.size, v.data = true, 64*mib, fmt.Sprint("data ", c.random.Uint64())
	c.lvm.Stain("vg0", v.name, v.data)
}

func (c *chaos) publish(v *promised) {
	if !v.exists {
		return
	}
	if chaosCall(c, (*Driver).NodeStageVolume, c.stageRequest(v.id, v.fs)) {
		v.published = chaosCall(c, (*Driver).NodePublishVolume, c.publishRequest(v.id, v.fs, v.name)) || v.published
	}
}

func (c *chaos) unpublish(v *promised) {
	v.published = false
	if chaosCall(c, (*Driver).NodeUnpublishVolume, unpublishRequest(v.id, c.target(v.name))) {
		chaosCall(c, (*Driver).NodeUnstageVolume, unstageRequest(v.id, c.staging(v.id)))
	}
}

func (c *chaos) expand(v *promised) {
	if !v.published {
		return
	}
	req := expandRequest(v.id, c.target(v.name), v.size+4*mib)
	if chaosCall(c, (*Driver).NodeExpandVolume, req) {
		v.size += 4 * mib
	}
	c.stain(v)
}

// stain writes the volume's data to the extents that it may have got.
func (c *chaos) stain(v *promised) {
	if v.exists {
		c.lvm.Stain("vg0", v.name, v.data)
	}
}

func (c *chaos) remove(v *promised) {
	published := v.published
	v.exists = v.exists && published // it is refused
	ok := chaosCall(c, (*Driver).DeleteVolume, deleteRequest(v.id))
	if ok && published {
		c.t.Errorf("%s was deleted while it was published", v.id)
	}
	v.gone = ok
	if ok {
		v.exists, v.published = false, false
	}
}

// check holds what callers were told against what is.
func (c *chaos) check() {
	c.t.Helper()
	if got := c.lvm.Stains("vg0", "theirs"); !slices.Equal(got, []string{"their data"}) {
		c.t.Fatalf("somebody's LV reads %q", got)
	}
	mounts, err := c.mounter.Mounts(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, v := range c.volumes {
		lv := c.find(v.id)
		switch {
		case v.gone && lv != nil:
			c.t.Fatalf("%s was deleted, and is there: %+v", v.id, lv)
		case !v.exists:
			continue
		case lv == nil:
			c.t.Fatalf("%s is gone", v.id)
		case lv.Size < v.size:
			c.t.Fatalf("%s has %d bytes, and was to have %d", v.id, lv.Size, v.size)
		}
		if r, ok := c.d.tags.read(lv); !ok || r.state != ready {
			c.t.Fatalf("%s was made, and its tags say %+v", v.id, r)
		}
		if got := c.lvm.Stains("vg0", v.name); !slices.Equal(got, []string{v.data}) {
			c.t.Fatalf("%s reads %q, want %q", v.id, got, v.data)
		}
		if got := c.lvm.Contents("vg0", v.name); v.fs != block && got != v.fs {
			c.t.Fatalf("%s holds %q", v.id, got)
		}
		if v.published && !slices.ContainsFunc(mounts, func(m mounter.Mount) bool { return m.Path == c.target(v.name) }) {
			c.t.Fatalf("%s was published, and is not mounted", v.id)
		}
	}
	if free := c.report("vg0").FreeExtents * 4 * mib; free < gib {
		c.t.Fatalf("of a reserve of 1 GiB %d bytes are left", free)
	}
}
