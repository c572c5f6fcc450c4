package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func creation(v victim) scenario {
	create := func(t *testing.T, w *world) {
		t.Helper()
		if err := v.create(t.Context(), w.d, victimSize); err != nil {
			t.Fatal(err)
		}
	}
	return scenario{
		name: fmt.Sprintf("CreateVolume %s", v), v: v,
		prepare: func(*testing.T, *world) {},
		call:    func(ctx context.Context, _ *world, d *Driver) error { return v.create(ctx, d, victimSize) },
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize)
			v.mounted(t, w)
			create(t, w)
			v.whole(t, w, victimSize)
		},
		then: []sequel{
			{"made after all and deleted", func(t *testing.T, w *world) {
				create(t, w)
				v.end(t, w)
			}},
			{"made after all and used", func(t *testing.T, w *world) {
				create(t, w)
				w.lvm.Stain("vg0", "victim", secret)
				v.pod(t, w)
				create(t, w)
				v.whole(t, w, victimSize, secret)
				v.mounted(t, w, v.lines("target")...)
			}},
			{"staged although it was not returned", func(t *testing.T, w *world) {
				switch err := v.stage(t.Context(), w, w.d); status.Code(err) {
				case codes.OK:
					v.whole(t, w, victimSize)
					w.unstage(t, victimID)
				case codes.NotFound, codes.Unavailable:
					v.mounted(t, w)
				default:
					t.Error(err)
				}
				create(t, w)
				v.end(t, w)
			}},
			{"another size", func(t *testing.T, w *world) {
				other := victim{fs: v.fs}
				err := other.create(t.Context(), w.d, grownSize)
				switch status.Code(err) {
				case codes.OK:
					other.whole(t, w, grownSize)
				case codes.AlreadyExists:
					create(t, w)
					v.whole(t, w, victimSize)
				default:
					t.Error(err)
				}
			}},
		},
	}
}

func staging(v victim) scenario {
	return scenario{
		name: fmt.Sprintf("NodeStageVolume %s", v), v: v, prepare: v.made, call: v.stage,
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines()...)
		},
		then: []sequel{
			{"given up", v.end},
			{"a pod", func(t *testing.T, w *world) {
				v.pod(t, w)
				v.whole(t, w, victimSize, secret)
				v.mounted(t, w, v.lines("target")...)
			}},
		},
	}
}

func publishing(v victim) scenario {
	stage := func(t *testing.T, w *world) {
		t.Helper()
		if err := v.stage(t.Context(), w, w.d); err != nil {
			t.Fatal(err)
		}
	}
	return scenario{
		name: fmt.Sprintf("NodePublishVolume %s", v), v: v,
		prepare: func(t *testing.T, w *world) { v.made(t, w); stage(t, w) },
		call: func(ctx context.Context, w *world, d *Driver) error {
			return v.publish(ctx, w, d, "target")
		},
		remount: stage,
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines("target")...)
		},
		then: []sequel{{"given up", func(t *testing.T, w *world) {
			v.end(t, w)
			if exists(t, w.target("target")) {
				t.Error("the target is still there")
			}
		}}},
	}
}

func unpublishing(v victim) scenario {
	other := func(t *testing.T, w *world) {
		t.Helper()
		if err := v.publish(t.Context(), w, w.d, "other"); err != nil {
			t.Fatal(err)
		}
	}
	return scenario{
		name: fmt.Sprintf("NodeUnpublishVolume %s", v), v: v,
		prepare: func(t *testing.T, w *world) { v.made(t, w); v.pod(t, w); other(t, w) },
		call: func(ctx context.Context, w *world, d *Driver) error {
			_, err := rpc(ctx, d, (*Driver).NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: victimID, TargetPath: w.target("target")})
			return err
		},
		remount: func(t *testing.T, w *world) { v.pod(t, w); other(t, w) },
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines("other")...)
			if exists(t, w.target("target")) {
				t.Error("the target is still there")
			}
		},
		then: []sequel{{"published again", func(t *testing.T, w *world) {
			w.unpublish(t, victimID, "other")
			v.pod(t, w)
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines("target")...)
		}}, {"all ended", v.end}},
	}
}

func unstaging(v victim) scenario {
	return scenario{
		name: fmt.Sprintf("NodeUnstageVolume %s", v), v: v,
		prepare: func(t *testing.T, w *world) { v.made(t, w); v.pod(t, w); w.unpublish(t, victimID, "target") },
		call: func(ctx context.Context, w *world, d *Driver) error {
			_, err := rpc(ctx, d, (*Driver).NodeUnstageVolume, &csi.NodeUnstageVolumeRequest{VolumeId: victimID, StagingTargetPath: w.staging(victimID)})
			return err
		},
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w)
		},
		then: []sequel{{"the next pod", func(t *testing.T, w *world) {
			v.pod(t, w)
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines("target")...)
		}}, {"all ended", v.end}},
	}
}

func expanding(v victim) scenario {
	want := func(t *testing.T, w *world) {
		t.Helper()
		v.whole(t, w, grownSize, secret)
		v.mounted(t, w, v.lines("target")...)
	}
	expand := func(t *testing.T, w *world, size int64) {
		t.Helper()
		if err := v.expand(t.Context(), w, w.d, size); err != nil {
			t.Fatal(err)
		}
	}
	return scenario{
		name: fmt.Sprintf("NodeExpandVolume %s", v), v: v,
		prepare: func(t *testing.T, w *world) { v.made(t, w); v.pod(t, w) },
		call:    func(ctx context.Context, w *world, d *Driver) error { return v.expand(ctx, w, d, grownSize) },
		remount: v.pod,
		want:    want,
		then: []sequel{
			{"the next pod", func(t *testing.T, w *world) {
				w.unpublish(t, victimID, "target")
				w.unstage(t, victimID)
				v.pod(t, w)
				expand(t, w, grownSize)
				want(t, w)
			}},
			{"request lowered", func(t *testing.T, w *world) {
				v.pod(t, w)
				expand(t, w, victimSize)
				v.whole(t, w, w.find(victimID).Size, secret)
			}},
			{"all ended", v.end},
		},
	}
}

func deletion(v victim) scenario {
	return scenario{
		name: fmt.Sprintf("DeleteVolume %s", v), v: v, prepare: v.made,
		call: func(ctx context.Context, _ *world, d *Driver) error {
			_, err := rpc(ctx, d, (*Driver).DeleteVolume, deleteRequest(victimID))
			return err
		},
		want: v.gone,
		then: []sequel{
			{"made again", func(t *testing.T, w *world) {
				if err := v.create(t.Context(), w.d, victimSize); err != nil {
					t.Fatal(err)
				}
				data := w.lvm.Stains("vg0", "victim")
				v.whole(t, w, victimSize, data...)
				if len(data) > 0 && !slices.Equal(data, []string{secret}) {
					t.Errorf("a new volume holds %q", data)
				}
			}},
			{"staged", func(t *testing.T, w *world) {
				switch err := v.stage(t.Context(), w, w.d); status.Code(err) {
				case codes.OK:
					v.whole(t, w, victimSize, secret)
				case codes.FailedPrecondition, codes.NotFound:
					v.mounted(t, w)
				default:
					t.Error(err)
				}
				v.end(t, w)
			}},
			{"taken up at the start", func(t *testing.T, w *world) {
				began := w.find(victimID) != nil && slices.Contains(w.find(victimID).Tags, w.d.tags.state(deleting))
				w.d.Start(t.Context())
				if began {
					v.gone(t, w)
				}
				w.delete(t, victimID)
				v.gone(t, w)
			}},
		},
	}
}

// deletionInUse deletes a volume that a pod has, which is refused.
func deletionInUse(v victim) scenario {
	sc := deletion(v)
	sc.name += " in use"
	sc.prepare = func(t *testing.T, w *world) { v.made(t, w); v.pod(t, w) }
	call := sc.call
	sc.call = func(ctx context.Context, w *world, d *Driver) error {
		err := call(ctx, w, d)
		switch status.Code(err) {
		case codes.OK:
			return errors.New("it was deleted")
		case codes.FailedPrecondition:
			return nil
		}
		return err
	}
	sc.remount, sc.then = v.pod, nil
	sc.want = func(t *testing.T, w *world) {
		v.whole(t, w, victimSize, secret)
		v.mounted(t, w, v.lines("target")...)
	}
	return sc
}

// deletionWithoutMetadata deletes while the metadata area has no room for one more tag.
func deletionWithoutMetadata(v victim) scenario {
	sc := deletion(v).after(" without metadata", func(w *world) {
		if err := w.d.lvm.Retag(context.Background(), "vg0", "foreign", spareTag, ""); err != nil {
			panic(err)
		}
		for n := 1000; n > 0; n /= 2 {
			for i := 0; w.d.lvm.Retag(context.Background(), "vg0", "foreign", fmt.Sprintf("%d/%0*d", n, n, i), "") == nil; i++ {
			}
		}
	})
	sc.metadataSize = 16 << 10
	sc.then = slices.DeleteFunc(sc.then, func(s sequel) bool { return s.name != "staged" })
	return sc
}

// spareTag takes room in the metadata area that a test may set free.
var spareTag = strings.Repeat("spare", 200)

// start is the driver's start over a deletion that was interrupted.
func start(v victim) scenario {
	return scenario{
		name: fmt.Sprintf("Start %s", v), v: v,
		prepare: func(t *testing.T, w *world) {
			v.made(t, w)
			if err := w.d.lvm.Retag(t.Context(), "vg0", "victim", w.d.tags.state(deleting), ""); err != nil {
				t.Fatal(err)
			}
		},
		call: func(ctx context.Context, _ *world, d *Driver) error { d.Start(ctx); return nil },
		want: v.gone,
		then: []sequel{{"deleted", func(t *testing.T, w *world) { w.delete(t, victimID); v.gone(t, w) }}},
	}
}

// startBeside is the driver's start while the victim is in use.
func startBeside(v victim) scenario {
	return scenario{
		name: fmt.Sprintf("Start with a pod's %s", v), v: v,
		prepare: func(t *testing.T, w *world) { v.made(t, w); v.pod(t, w) },
		call:    func(ctx context.Context, _ *world, d *Driver) error { d.Start(ctx); return nil },
		remount: v.pod,
		want: func(t *testing.T, w *world) {
			v.whole(t, w, victimSize, secret)
			v.mounted(t, w, v.lines("target")...)
			if dev, _ := w.lvm.Device("vg0", "victim"); dev.Suspended {
				t.Error("whoever writes to it hangs")
			}
		},
	}
}
