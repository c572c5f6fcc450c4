package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/test/node"
)

// run holds what the operations share.
type run struct {
	ctx     context.Context
	client  *node.Client
	rec     *recorder
	vg, dir string
	volumes map[string]*node.Volume
}

// operations are in the order in which a volume lives, so that each finds what the one before left.
func (b *run) operations() []*operation {
	return []*operation{
		{name: "CreateVolume, block", driver: b.create("block", node.Block), hand: func(_ int, lvm [][]string) error {
			return all(lvm...)
		}},
		{name: "CreateVolume, ext4", driver: b.create("ext4", "ext4"), hand: func(i int, lvm [][]string) error {
			return all(lvm[0], []string{"mkfs.ext4", "-F", "-q", "-m", "0", "-E", "nodiscard", "-O", "^orphan_file", b.device("ext4", i)}, lvm[1])
		}},
		{name: "NodeStage and NodePublish", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Mount(b.ctx) }, hand: func(i int, _ [][]string) error {
			staging, target := filepath.Join(b.dir, "staging", fmt.Sprint(i)), filepath.Join(b.dir, "target", fmt.Sprint(i))
			for _, dir := range []string{staging, target} {
				if err := os.MkdirAll(dir, 0o750); err != nil {
					return err
				}
			}
			return all([]string{"blkid", "-p", "-u", "filesystem,crypto,other", "-o", "export", b.device("ext4", i)}, []string{"e2fsck", "-p", b.device("ext4", i)},
				[]string{"mount", "-w", "-t", "ext4", b.device("ext4", i), staging}, []string{"mount", "--bind", staging, target})
		}},
		{name: "NodeExpandVolume, ext4", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Expand(b.ctx, 64*mib) }, hand: func(i int, lvm [][]string) error {
			return all(lvm[0], []string{"resize2fs", b.device("ext4", i)})
		}},
		{name: "NodeUnpublish and NodeUnstage", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Unmount(b.ctx) }, hand: func(i int, _ [][]string) error {
			return all([]string{"umount", filepath.Join(b.dir, "target", fmt.Sprint(i))}, []string{"umount", filepath.Join(b.dir, "staging", fmt.Sprint(i))})
		}},
		{name: "DeleteVolume, erase zero", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Delete(b.ctx) }, hand: func(i int, lvm [][]string) error {
			return all(lvm[0], lvm[1], []string{"blkdiscard", "-z", b.device("ext4", i)}, lvm[2])
		}},
		{name: "DeleteVolume, erase none", driver: func(i int) error { return b.volumes[fmt.Sprint("block", i)].Delete(b.ctx) }, hand: func(_ int, lvm [][]string) error {
			return all(lvm...)
		}},
	}
}

// create makes the driver's volumes.
func (b *run) create(kind, fs string) func(i int) error {
	erase := map[string]string{"block": "none", "ext4": "zero"}[kind]
	return func(i int) error {
		v, err := b.client.Create(b.ctx, name("driver", kind, i), fs, 32*mib, map[string]string{"erase": erase})
		b.volumes[fmt.Sprint(kind, i)] = v
		return err
	}
}

// name is the name of a volume; those of both sides are of the same length.
func name(side, kind string, i int) string { return fmt.Sprintf("pvc-%s-%s-%d", side, kind, i) }

func (b *run) device(kind string, i int) string {
	return "/dev/mapper/" + lvm.MapperName(b.vg, name("byhand", kind, i))
}

// byHand makes command lines of the lvm commands that the driver ran while it warmed up, for the volume of by hand in
// round i.
func (b *run) byHand(commands [][]string, i int) [][]string {
	var all [][]string
	for _, c := range commands {
		words := b.rec.Words(c...)
		for w := range words {
			for _, kind := range []string{"block", "ext4"} {
				words[w] = strings.ReplaceAll(words[w], name("driver", kind, min(i, warmUp-1)), name("byhand", kind, i))
			}
		}
		all = append(all, words)
	}
	return all
}

// all runs programs one after another.
func all(commands ...[]string) error {
	for _, words := range commands {
		if _, err := node.Run(words...); err != nil {
			return err
		}
	}
	return nil
}
