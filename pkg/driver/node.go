package driver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// NodeGetCapabilities implements csi.NodeServer.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	var all []*csi.NodeServiceCapability
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		all = append(all, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// NodeGetInfo implements csi.NodeServer. It runs no command.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             d.config.NodeID,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{d.topologyKey(): d.topologyValue()}},
	}, nil
}

// mountsAt are the mounts stacked at a path, the top one last.
func (d *Driver) mountsAt(ctx context.Context, path string) ([]mounter.Mount, error) {
	all, err := d.mounter.Mounts(ctx)
	if err != nil {
		return nil, err
	}
	var here []mounter.Mount
	for _, m := range all {
		if m.Path == path {
			here = append(here, m)
		}
	}
	return here, nil
}

// unmountAll undoes every mount of a volume at a path. That there is none is a success, and so is that another volume's device is
// mounted there, which is left: the volume is not there. Of a volume that has no device nothing is known, or its ID is none: whatever is at
// the path is unmounted, for kubelet would ask for ever. free tells whether nothing is mounted there in the end.
func (d *Driver) unmountAll(ctx context.Context, id volumeID, path string) (free bool, err error) {
	mounts, err := d.mountsAt(ctx, path)
	if err != nil || len(mounts) == 0 {
		return err == nil, err
	}
	var own string
	if id != (volumeID{}) {
		if dev, err := d.mounter.Device(ctx, id.vg, id.lv); err == nil {
			own = dev.ID
		}
	}
	for _, m := range slices.Backward(mounts) {
		if own != "" && m.DeviceID != "" && m.DeviceID != own {
			klog.FromContext(ctx).V(2).Info("Another volume is mounted there, and stays", "path", path, "device", m.DeviceID, "volumeDevice", own)
			return false, nil
		}
		if err := d.mounter.Unmount(ctx, path); err != nil && !errors.Is(err, mounter.ErrNotMounted) {
			return false, err
		}
	}
	return true, nil
}

// checkPath wants an absolute path whose last element is no symbolic link: a mount would follow it.
func checkPath(field, path string) error {
	if !filepath.IsAbs(path) {
		return invalidf("%s %q is not an absolute path", field, path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return invalidf("%s %q is a symbolic link", field, path)
	}
	return nil
}

// onNode runs fn under the lock of the volume that a request names, after its ID and then its paths have been judged. An ID that
// cannot be one locks its path instead: unmounting must not depend on it.
func onNode[T any](ctx context.Context, d *Driver, id volumeID, path string, fn func(context.Context) (T, error)) (T, error) {
	if id == (volumeID{}) {
		return work(ctx, d, "", path, fn)
	}
	return work(ctx, d, id.vg, id.lv, fn)
}

// clean makes a path comparable with those of Mounts, in which the kernel has resolved symbolic links: kubelet's folder
// may be behind one. The last element stays as it is (checkPath), and so does a path that is not absolute or is empty.
func clean(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	path = filepath.Clean(path)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		// What is not there yet, or no longer, has no links.
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, path[len(dir):])
		} else if dir == "/" {
			return path
		}
	}
}
