package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Block is the FS of a raw block volume.
const Block = "block"

// Client speaks CSI to a driver, with the paths that kubelet would use under a folder of its own.
type Client struct {
	csi.IdentityClient
	csi.ControllerClient
	csi.NodeClient
	dir string

	mu      sync.Mutex
	volumes []*Volume
}

// Volume is a volume that a Client made.
type Volume struct {
	ID   string
	FS   string // "ext4", "xfs", "btrfs" or Block
	Size int64
	c    *Client
	dir  string
}

// Dial connects to the driver on a socket. Staging and target paths are made under dir.
func Dial(socket, dir string) (*Client, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}}))
	if err != nil {
		return nil, err
	}
	return &Client{IdentityClient: csi.NewIdentityClient(conn), ControllerClient: csi.NewControllerClient(conn),
		NodeClient: csi.NewNodeClient(conn), dir: dir}, nil
}

// Capability is what a volume of a filesystem (or Block) is asked for.
func Capability(fs string) *csi.VolumeCapability {
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	if fs == Block {
		return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	}
	return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs}}}
}

// Request is a CreateVolume request for size bytes.
func Request(name, fs string, size int64, parameters map[string]string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, Parameters: parameters, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{Capability(fs)}}
}

// Create makes a volume.
func (c *Client) Create(ctx context.Context, name, fs string, size int64, parameters map[string]string) (*Volume, error) {
	resp, err := c.CreateVolume(ctx, Request(name, fs, size, parameters))
	if err != nil {
		return nil, err
	}
	return c.Volume(resp.GetVolume().GetVolumeId(), name, fs, resp.GetVolume().GetCapacityBytes()), nil
}

// Volume is a volume that exists already, such as one from before a reboot. Clear deletes it too.
func (c *Client) Volume(id, name, fs string, size int64) *Volume {
	v := c.volume(id, name, fs, size)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumes = append(c.volumes, v)
	return v
}

func (c *Client) volume(id, name, fs string, size int64) *Volume {
	return &Volume{ID: id, FS: fs, Size: size, c: c, dir: filepath.Join(c.dir, name)}
}

// Staging is the volume's staging path.
func (v *Volume) Staging() string { return filepath.Join(v.dir, "globalmount") }

// Target is the volume's target path, where a pod finds it.
func (v *Volume) Target() string { return filepath.Join(v.dir, "mount") }

// Stage stages the volume.
func (v *Volume) Stage(ctx context.Context) error {
	if err := os.MkdirAll(v.Staging(), 0o750); err != nil {
		return err
	}
	_, err := v.c.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging(), VolumeCapability: Capability(v.FS)})
	return err
}

// Publish publishes the staged volume.
func (v *Volume) Publish(ctx context.Context) error {
	_, err := v.c.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging(), TargetPath: v.Target(),
		VolumeCapability: Capability(v.FS)})
	return err
}

// Mount stages and publishes.
func (v *Volume) Mount(ctx context.Context) error {
	if err := v.Stage(ctx); err != nil {
		return err
	}
	return v.Publish(ctx)
}

// Unmount unpublishes and unstages.
func (v *Volume) Unmount(ctx context.Context) error {
	if _, err := v.c.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.ID, TargetPath: v.Target()}); err != nil {
		return err
	}
	_, err := v.c.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging()})
	return err
}

// Expand grows the published volume to size bytes.
func (v *Volume) Expand(ctx context.Context, size int64) error {
	resp, err := v.c.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.ID, VolumePath: v.Target(), StagingTargetPath: v.Staging(),
		CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: Capability(v.FS)})
	if err == nil && resp.GetCapacityBytes() < size {
		err = fmt.Errorf("expanded to %d bytes, not %d", resp.GetCapacityBytes(), size)
	}
	if err == nil {
		v.Size = resp.GetCapacityBytes()
	}
	return err
}

// Delete deletes the volume.
func (v *Volume) Delete(ctx context.Context) error {
	_, err := v.c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID})
	return err
}

// Clear unmounts and deletes every volume that was made, as far as it can.
func (c *Client) Clear(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, v := range c.volumes {
		errs = append(errs, v.Unmount(ctx), v.Delete(ctx))
	}
	c.volumes = nil
	return errors.Join(errs...)
}
