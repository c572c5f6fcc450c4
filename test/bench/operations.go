package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/test/node"
)

// run holds what the operations share.
type run struct {
	ctx        context.Context
	client     *node.Client
	rec        *recorder
	vg, dir    string
	volumes    map[string]*node.Volume
	commands   [][]string // the driver's last
	lastReport []string
}

// operations are in the order in which a volume lives, so that each finds what the one before left.
func (b *run) operations() []*operation {
	return []*operation{
		{name: "CreateVolume, block", driver: b.create("block", node.Block), hand: func(i int) error { return b.lvcreate("block", i) }},
		{name: "CreateVolume, ext4", driver: b.create("ext4", "ext4"), hand: func(i int) error {
			if err := b.lvcreate("ext4", i, "--addtag", "lvm-csi.io/state=creating"); err != nil {
				return err
			}
			if err := all([]string{"mkfs.ext4", "-F", "-q", "-m", "0", "-E", "nodiscard", b.device("ext4", i)}); err != nil {
				return err
			}
			return all([]string{"lvm", "lvchange", "-A", "n", "-y", "--deltag", "lvm-csi.io/state=creating", b.vg + "/" + b.name("ext4", i)})
		}},
		{name: "NodeStage and NodePublish", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Mount(b.ctx) }, hand: func(i int) error {
			staging, target := filepath.Join(b.dir, "staging", fmt.Sprint(i)), filepath.Join(b.dir, "target", fmt.Sprint(i))
			for _, dir := range []string{staging, target} {
				if err := os.MkdirAll(dir, 0o750); err != nil {
					return err
				}
			}
			return all([]string{"blkid", "-p", "-u", "filesystem", b.device("ext4", i)}, []string{"e2fsck", "-p", b.device("ext4", i)},
				[]string{"mount", "-t", "ext4", b.device("ext4", i), staging}, []string{"mount", "--bind", staging, target})
		}},
		{name: "NodeExpandVolume, ext4", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Expand(b.ctx, 64*mib) }, hand: func(i int) error {
			return all([]string{"lvm", "lvextend", "-A", "n", "-y", "-L", fmt.Sprint(64*mib) + "b", b.vg + "/" + b.name("ext4", i)},
				[]string{"resize2fs", b.device("ext4", i)})
		}},
		{name: "NodeUnpublish and NodeUnstage", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Unmount(b.ctx) }, hand: func(i int) error {
			return all([]string{"umount", filepath.Join(b.dir, "target", fmt.Sprint(i))}, []string{"umount", filepath.Join(b.dir, "staging", fmt.Sprint(i))})
		}},
		{name: "DeleteVolume, erase zero", driver: func(i int) error { return b.volumes[fmt.Sprint("ext4", i)].Delete(b.ctx) }, hand: func(i int) error {
			return b.lvremove("ext4", i, true)
		}},
		{name: "DeleteVolume, erase none", driver: func(i int) error { return b.volumes[fmt.Sprint("block", i)].Delete(b.ctx) }, hand: func(i int) error {
			return b.lvremove("block", i, false)
		}},
	}
}

func (b *run) create(kind, fs string) func(i int) error {
	erase := map[string]string{"block": "none", "ext4": "zero"}[kind]
	return func(i int) error {
		v, err := b.client.Create(b.ctx, fmt.Sprintf("pvc-driver-%s-%d", kind, i), fs, 32*mib, map[string]string{"erase": erase})
		b.volumes[fmt.Sprint(kind, i)] = v
		return err
	}
}

func (b *run) name(kind string, i int) string { return fmt.Sprintf("pvc-byhand-%s-%d", kind, i) }

func (b *run) device(kind string, i int) string {
	return "/dev/mapper/" + lvm.MapperName(b.vg, b.name(kind, i))
}

// lvcreate is the driver's lvcreate, with as many tags.
func (b *run) lvcreate(kind string, i int, more ...string) error {
	name := b.name(kind, i)
	words := []string{"lvm", "lvcreate", "-A", "n", "-y", "-W", "y", "-Z", "y", "-n", name, "-L", fmt.Sprint(32*mib) + "b",
		"--addtag", "lvm-csi.io/v=1", "--addtag", "lvm-csi.io/id=" + b.vg + "/" + name + ":00000000", "--addtag", "lvm-csi.io/name=" + name, "--addtag", "lvm-csi.io/fs=" + kind}
	return all(append(append(words, more...), b.vg))
}

// lvremove is what DeleteVolume runs: a report first and, where it erases, a tag and the zeroing.
func (b *run) lvremove(kind string, i int, erase bool) error {
	lv := b.vg + "/" + b.name(kind, i)
	if err := all(append([]string{"lvm"}, b.report()...)); err != nil {
		return err
	}
	if erase {
		if err := all([]string{"lvm", "lvchange", "-A", "n", "-y", "--addtag", "lvm-csi.io/state=deleting", lv}, []string{"blkdiscard", "-z", b.device(kind, i)}); err != nil {
			return err
		}
	}
	return all([]string{"lvm", "lvremove", "-A", "n", "-y", "-S", fmt.Sprintf(`lv_name="%s" && lv_tags="lvm-csi.io/v=1" && lv_role!="thickorigin"`, b.name(kind, i)), b.vg})
}

// report is the driver's own report, from the last time that it ran one.
func (b *run) report() []string {
	for _, c := range b.commands {
		if c[0] == "fullreport" {
			b.lastReport = append([]string{"fullreport", "--reportformat", "json"}, c[1:]...)
		}
	}
	return b.lastReport
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
