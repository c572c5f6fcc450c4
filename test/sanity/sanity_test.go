// Package sanity runs csi-sanity against the driver, in process: on the fake LVM in every `go test`, and on a real VG
// when one is named (-vg, as root). It knows which specs may be skipped: only those of capabilities that the
// driver does not offer.
package sanity

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
	"github.com/lvm-csi/lvm-csi/pkg/mounter/mountertest"
	"github.com/lvm-csi/lvm-csi/pkg/socket"
)

var vg = flag.String("vg", "", "run on this real volume `group` instead of the fake; needs root and 1 GiB free; what the test makes there it removes")

// notOffered are the reasons for which csi-sanity v5.6 may skip a spec here: each is a capability that the driver does not
// offer, or a setting that is not of this driver. Any other skip fails the run.
var notOffered = []string{
	"Snapshot not supported", "ListSnapshots not supported", "GetSnapshot not supported", "DeleteSnapshot not supported", "CreateSnapshot not supported",
	"Volume Cloning not supported",
	"Modify volume not supported", "Modify Volume not supported", "ControllerModifyVolume not supported",
	"ControllerPublishVolume not supported", "Controller Publish, UnpublishVolume not supported", "ControllerUnpublishVolume not supported",
	"ControllerExpandVolume not supported", // expansion is the node's alone
	"ControllerGetVolumeHealth not supported", "ControllerListVolumeHealth not supported",
	"NodeGetVolumeHealth not supported", "NodeGetStorageHealth not supported",
	"GroupControllerService not supported",
}

// TestSanity runs all specs for a filesystem and for raw block volumes.
func TestSanity(t *testing.T) {
	dir := t.TempDir()
	address := "unix://" + serve(t, dir)
	for _, accessType := range []string{"mount", "block"} {
		config := sanity.NewTestConfig()
		config.Address = address
		config.TestVolumeAccessType = accessType
		config.TestVolumeSize = 64 << 20
		config.TestVolumeExpandSize = 96 << 20
		config.TargetPath = filepath.Join(dir, accessType+"-target")
		config.StagingPath = filepath.Join(dir, accessType+"-staging")
		ginkgo.Describe(accessType+" volumes", func() { sanity.GinkgoTest(&config) })
	}
	var report types.Report
	ginkgo.ReportAfterSuite("skips", func(r ginkgo.Report) { report = r })
	gomega.RegisterFailHandler(ginkgo.Fail)
	klog.SetLogger(ginkgo.GinkgoLogr) // shown with a spec that fails
	ginkgo.RunSpecs(t, "csi-sanity")
	checkSkips(t, report)
}

// serve starts the driver and returns its socket.
func serve(t *testing.T, dir string) string {
	fake := lvmtest.New()
	config := driver.Config{Name: "lvm-csi.io", Version: "sanity", NodeID: "node-1", DefaultVG: "vg0"}
	d := driver.New(config, lvm.New(fake), mountertest.New(fake))
	if *vg != "" {
		config.DefaultVG = *vg
		d = driver.New(config, lvm.New(lvm.Process{}), mounter.New(nil))
	} else {
		fake.AddVG("vg0", lvmtest.VGOptions{PVs: []int64{20 << 30}})
	}
	path := filepath.Join(dir, "csi.sock")
	listener, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	d.Start(ctx)
	go func() { served <- d.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if !d.Close() {
			t.Error("operations did not end")
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		if *vg == "" {
			if err := fake.Check(); err != nil {
				t.Error(err)
			}
		}
	})
	return path
}

// checkSkips fails on a skip that is not for a capability we lack, and prints the skips by their reasons.
func checkSkips(t *testing.T, report types.Report) {
	skips := map[string]int{}
	for _, spec := range report.SpecReports {
		if spec.State != types.SpecStateSkipped {
			continue
		}
		reason := spec.Failure.Message
		skips[reason]++
		if !slices.ContainsFunc(notOffered, func(s string) bool { return strings.Contains(reason, s) }) {
			t.Errorf("%s was skipped: %s", spec.FullText(), reason)
		}
	}
	var lines []string
	for reason, n := range skips {
		lines = append(lines, fmt.Sprintf("  %3d skipped: %s", n, reason))
	}
	slices.Sort(lines)
	fmt.Printf("\nNot offered by this driver:\n%s\n", strings.Join(lines, "\n"))
}
