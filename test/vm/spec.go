package vm

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// imageFormat changes when an image must be built anew for a reason that the
// rest of its key does not show, such as other mkfs options.
const imageFormat = "1"

// rootBytes is the size of the root file system; the file is sparse.
const rootBytes = 4 << 30

// Suites are the Debian releases that are known to boot: three generations of
// kernel and LVM.
var Suites = []string{"bullseye", "bookworm", "trixie"}

// DefaultSuite is used where none is named.
const DefaultSuite = "bookworm"

// basePackages are in every image. busybox-static runs the initrd, cpio and
// xz-utils make it; initramfs-tools is what linux-image asks for.
var basePackages = []string{
	"btrfs-progs", "busybox-static", "cpio", "e2fsprogs", "fdisk",
	"initramfs-tools", "iproute2", "kmod", "linux-image-amd64", "lvm2",
	"procps", "psmisc", "strace", "thin-provisioning-tools", "udev",
	"util-linux", "xfsprogs", "xz-utils", "zstd",
}

var (
	//go:embed guest/setup.sh
	setupScript string
	//go:embed guest/initrd.sh
	initrdScript string
	//go:embed guest/stage1.sh
	stage1Script string
)

// Spec says what an image holds.
type Spec struct {
	Suite    string   // Debian release; "" is DefaultSuite
	Packages []string // Debian packages beside the base set
}

func (s Spec) suite() string {
	if s.Suite == "" {
		return DefaultSuite
	}
	return s.Suite
}

func (s Spec) packages() []string {
	all := slices.Concat(basePackages, s.Packages)
	slices.Sort(all)
	return slices.Compact(all)
}

func (s Spec) validate() error {
	if !slices.Contains(Suites, s.suite()) {
		return fmt.Errorf("unknown suite %q: want one of %s", s.suite(), strings.Join(Suites, ", "))
	}
	return nil
}

// Name is the name of the image in the cache: the suite and a hash of all that
// determines the image. guest/init.sh is not part of it: it comes by way of the
// shared folder, so that a change to it costs no new image.
func (s Spec) Name() string {
	sum := sha256.New()
	parts := []string{imageFormat, fmt.Sprint(rootBytes), makeRootScript, setupScript, initrdScript, stage1Script}
	for _, part := range append(parts, s.packages()...) {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return s.suite() + "-" + hex.EncodeToString(sum.Sum(nil))[:12]
}
