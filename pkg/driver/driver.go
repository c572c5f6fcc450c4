// Package driver is the CSI services (Identity, Controller and Node) of one node, and the rules between
// them and LVM: what makes an LV a volume, which change comes before which so that a power cut at any instant leaves what
// the next call completes or rolls back, and which gRPC code each failure is.
//
// It knows CSI. It refuses to know Kubernetes, and keeps nothing that LVM does not: all it holds in
// memory can be lost at any time.
package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// Config is what the driver is told at its start.
type Config struct {
	Name      string // the driver's name, also in tags and in the topology key
	Version   string
	NodeID    string
	DefaultVG string           // the VG of StorageClasses that name none; "" means they must
	Reserve   map[string]int64 // bytes to keep free, by VG
	// SystemVGs hold the node's root file system or swap. They grant nothing unless Reserve says how much to
	// leave them.
	SystemVGs []string
	// NoTools is an instance that says what the plugin can do and does nothing: the one beside external-resizer.
	NoTools bool
}

// driverName is what CSI takes as a plugin name (GetPluginInfo) and Kubernetes as a label prefix, shorter by
// what the tags and topology.<name> add.
var driverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

const maxDriverName = 54

// Check says what is wrong with a configuration, or returns nil.
func (c Config) Check() error {
	switch {
	case len(c.Name) > maxDriverName || !driverName.MatchString(c.Name):
		return fmt.Errorf("driver name %q: use at most %d lower-case letters, digits, '.' and '-', beginning and ending with a letter or digit", c.Name, maxDriverName)
	case c.NodeID == "":
		return fmt.Errorf("node ID: is empty; give the node's name")
	case len(c.NodeID) > 192: // what Kubernetes allows of a node ID; CSI's own limit is 256
		return fmt.Errorf("node ID: is longer than 192 bytes")
	}
	for vg, bytes := range c.Reserve {
		if err := lvm.CheckVGName(vg); err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		if bytes < 0 {
			return fmt.Errorf("reserve: of volume group %s is negative", vg)
		}
	}
	if c.DefaultVG != "" {
		if err := lvm.CheckVGName(c.DefaultVG); err != nil {
			return fmt.Errorf("default %w", err)
		}
	}
	return nil
}

// Driver implements the CSI services. Make it with New.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	config  Config
	node    string // nodeHash of the node ID
	tags    tagger
	lvm     *lvm.LVM
	mounter mounter.Mounter
	known   known
	locks   locks

	metadataLow sync.Map // of VG names to bool: as the last report had it
	turns       turns    // of restricted VGs
	claims      claims

	refusals     turns
	refusalPause time.Duration // refusalPause; 0 in tests that are about other things

	stopOnce   sync.Once
	erasing    context.Context // ends when the driver is to stop
	endErasing context.CancelFunc
	life       context.Context // ends drainGrace later, for all else that can be begun again
	end        context.CancelFunc
	late       chan struct{} // closed stopGrace after the stop began
	working    sync.WaitGroup

	lvmSeen sync.Once
	lvmOK   chan struct{} // closed when LVM has answered once
}

// New makes a driver over l and m. The configuration has been checked.
func New(config Config, l *lvm.LVM, m mounter.Mounter) *Driver {
	d := &Driver{
		config: config, node: nodeHash(config.NodeID), tags: tagger{config.Name}, lvm: l, mounter: m,
		known: known{uuids: map[string]string{}}, locks: locks{held: map[string]bool{}}, turns: newTurns(), claims: claims{vgs: map[string]map[string]int64{}},
		refusals: newTurns(), refusalPause: refusalPause, lvmOK: make(chan struct{}), late: make(chan struct{}),
	}
	d.erasing, d.endErasing = context.WithCancel(context.Background())
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// ours reports whether an ID was made on this node.
func (d *Driver) ours(id volumeID) bool { return id.node == d.node }

// topologyKey is the one key by which a volume is tied to its node.
func (d *Driver) topologyKey() string { return "topology." + d.config.Name + "/node" }

// topologyValue is the node ID where that is a legal label value, else a hash of it.
func (d *Driver) topologyValue() string {
	if labelValue.MatchString(d.config.NodeID) {
		return d.config.NodeID
	}
	sum := sha256.Sum256([]byte(d.config.NodeID))
	return "node-" + hex.EncodeToString(sum[:16])
}

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// How long a stop takes at most. Calls and other work under way have drainGrace to end by themselves; then mkfs, fsck and the like
// are ended too, and are taken up again after the next start. lvm commands are never ended: after stopGrace nobody waits for them any more.
const (
	drainGrace  = 30 * time.Second
	stopGrace   = 60 * time.Second
	backupGrace = 10 * time.Second // within stopGrace, once all work has ended
)

// beginStop stops erasing, which takes hours and is taken up again, and sets the time for all else.
func (d *Driver) beginStop() {
	d.stopOnce.Do(func() {
		d.endErasing()
		time.AfterFunc(drainGrace, d.end)
		time.AfterFunc(stopGrace, func() { close(d.late) })
	})
}

// Close lets work that is under way come to its end, and has LVM write the backups that are due. It returns false when lvm
// commands are still under way a minute after the stop began.
func (d *Driver) Close() bool {
	d.beginStop()
	done := make(chan struct{})
	go func() { d.working.Wait(); close(done) }()
	select {
	case <-done:
		d.end()
		d.backUpAtLast()
		return true
	case <-d.late:
		klog.Background().Info("Stopping although lvm commands are still under way; the next start looks at what they left")
		return false
	}
}
