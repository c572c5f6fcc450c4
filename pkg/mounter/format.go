package mounter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Format implements Mounter. All three mkfs open the device exclusively, and are asked first here so that a
// device in use has one error whatever a mkfs says of it.
func (l *Linux) Format(ctx context.Context, dev Device, fsType string, options []string) error {
	if err := l.format(ctx, dev, fsType, options); err != nil {
		return fmt.Errorf("making %s on %s: %w", fsType, dev.Path, err)
	}
	return nil
}

func (l *Linux) format(ctx context.Context, dev Device, fsType string, options []string) error {
	m, known := makers[fsType]
	if !known {
		return fmt.Errorf("no mkfs for filesystem %q", fsType)
	}
	if i := slices.IndexFunc(options, namesDevice); i >= 0 {
		return fmt.Errorf("%w: %q names a device", ErrBadOptions, options[i])
	}
	claim, err := l.Claim(ctx, dev)
	if err != nil {
		return err
	}
	claim.Close()
	words, err := l.mkfs(ctx, m, options)
	if err != nil {
		return err
	}
	if _, _, err := l.tool(ctx, append(words, dev.Path)...); err != nil {
		l.versions.forget(m.words[0]) // it may be another one by now
		return l.refusal(ctx, dev, m, options, err)
	}
	if len(options) == 0 {
		return nil
	}
	// Options can make mkfs do something else, or nothing (-n, -N, --help).
	switch found, err := l.probe(ctx, dev); {
	case err != nil:
		return err
	case found != fsType:
		return fmt.Errorf("%w: with them the device holds %q afterwards", ErrBadOptions, found)
	}
	return nil
}

// namesDevice: an option must not lead mkfs to a second device (mkfs.btrfs takes any number), which would lose what it holds.
func namesDevice(option string) bool { return strings.Contains(option, "dev/") }

// refusal finds out what the failure of a mkfs means. Its exit status is 1 for everything. A dry run that fails with
// the caller's words and does not without them puts it down to the words.
func (l *Linux) refusal(ctx context.Context, dev Device, m maker, options []string, failure error) error {
	var e *toolError
	if !errors.As(failure, &e) {
		return failure
	}
	claim, err := l.Claim(ctx, dev)
	if err != nil {
		return errors.Join(err, failure)
	}
	claim.Close()
	if len(options) == 0 {
		return failure
	}
	var refused bool
	if m.dryRun == "" {
		refused = m.usage.MatchString(e.output)
	} else {
		with, without := l.dryRun(ctx, dev, m, options), l.dryRun(ctx, dev, m, nil)
		refused = exitCode(with) > 0 && without == nil
	}
	if !refused {
		return failure
	}
	lines := e.lines()
	return fmt.Errorf("%w: %s: %s", ErrBadOptions, e.tool, strings.Join(lines[:min(2, len(lines))], "; "))
}

func (l *Linux) dryRun(ctx context.Context, dev Device, m maker, options []string) error {
	words, err := l.mkfs(ctx, m, options)
	if err == nil {
		_, _, err = l.tool(ctx, append(words, m.dryRun, dev.Path)...)
	}
	return err
}
