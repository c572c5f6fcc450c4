package vm

import (
	"slices"
	"strings"
	"testing"
)

func TestMachineArgs(t *testing.T) {
	cfg := MachineConfig{
		Image: Image{dir: "/image"}, Accel: "tcg", Memory: "2G", CPUs: 2,
		Disks: []string{"/a,b/disk1.img"}, Extra: []string{"-device", "x"},
	}
	args := cfg.args()
	if i := slices.Index(args, "-accel"); args[i+1] != "tcg,thread=multi" {
		t.Errorf("-accel %s", args[i+1])
	}
	all := strings.Join(args, " ")
	if !strings.Contains(all, "file=/a,,b/disk1.img") {
		t.Errorf("the comma in the disk's path is not doubled: %s", all)
	}
	// The order of the devices is the order of their names in the guest.
	if strings.Index(all, "virtio-blk-pci,drive=root") > strings.Index(all, "virtio-blk-pci,drive=disk1") {
		t.Errorf("the root disk is not the first: %s", all)
	}
	if !strings.HasSuffix(all, "-device x") {
		t.Errorf("the extra arguments are missing: %s", all)
	}
}
