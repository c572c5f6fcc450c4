package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/lvm/lvmtest"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// What tests do to commands and to the mounter so that they fail.

// onCommand runs do in place of the commands that begin with a prefix.
func onCommand(prefix string, do lvmtest.Hook) lvmtest.Hook {
	return func(ctx context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
		if strings.HasPrefix(strings.Join(args, " "), prefix) {
			return do(ctx, args, run)
		}
		return run()
	}
}

// answer has a command not done and answered by an exit status and LVM's words.
func answer(code int, words ...string) lvmtest.Hook {
	return func(context.Context, []string, func() (lvm.Output, error)) (lvm.Output, error) {
		out := lvm.Output{Code: code}
		for _, w := range words {
			out.Log = append(out.Log, lvm.Message{Type: "error", Text: w})
		}
		return out, nil
	}
}

// lost has a command done and its answer lost, as when the lvm process is killed right after its work.
func lost(_ context.Context, args []string, run func() (lvm.Output, error)) (lvm.Output, error) {
	if _, err := run(); err != nil {
		return lvm.Output{}, err
	}
	return lvm.Output{}, fmt.Errorf("%s: %w", args[0], lvm.ErrUnknown)
}

// killed has a command not done although it was begun.
func killed(_ context.Context, args []string, _ func() (lvm.Output, error)) (lvm.Output, error) {
	return lvm.Output{}, fmt.Errorf("%s: %w", args[0], lvm.ErrUnknown)
}

// faultyMounter is a mounter whose methods tests replace.
type faultyMounter struct {
	mounter.Mounter
	format func() error
	erase  func() error
	bind   func() error
	claim  func() error
	mounts func() error
}

// Mounts implements mounter.Mounter.
func (m faultyMounter) Mounts(ctx context.Context) ([]mounter.Mount, error) {
	if m.mounts != nil {
		return nil, m.mounts()
	}
	return m.Mounter.Mounts(ctx)
}

// Claim implements mounter.Mounter.
func (m faultyMounter) Claim(ctx context.Context, dev mounter.Device) (io.Closer, error) {
	if m.claim != nil {
		return nil, m.claim()
	}
	return m.Mounter.Claim(ctx, dev)
}

// Format implements mounter.Mounter.
func (m faultyMounter) Format(ctx context.Context, dev mounter.Device, fsType string, options []string) error {
	if m.format != nil {
		return m.format()
	}
	return m.Mounter.Format(ctx, dev, fsType, options)
}

// Erase implements mounter.Mounter.
func (m faultyMounter) Erase(ctx context.Context, dev mounter.Device, how mounter.Erase) error {
	if m.erase != nil {
		return m.erase()
	}
	return m.Mounter.Erase(ctx, dev, how)
}

// Bind implements mounter.Mounter.
func (m faultyMounter) Bind(ctx context.Context, source, path string, readOnly bool) error {
	if m.bind != nil {
		return m.bind()
	}
	return m.Mounter.Bind(ctx, source, path, readOnly)
}

// withFaults puts m between the drivers and the fake mounter.
func withFaults(m faultyMounter) option {
	return withMounter(func(real mounter.Mounter) mounter.Mounter { m.Mounter = real; return m })
}

// replaceAll edits a report.
func replaceAll(report json.RawMessage, old, new string) json.RawMessage {
	return json.RawMessage(strings.ReplaceAll(string(report), old, new))
}

// hang has commands wait until nobody does; a change is never given up.
func hang(ctx context.Context, args []string, _ func() (lvm.Output, error)) (lvm.Output, error) {
	<-ctx.Done()
	return lvm.Output{}, fmt.Errorf("%s: %w", args[0], lvm.ErrUnknown)
}
