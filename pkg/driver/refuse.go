package driver

import (
	"context"
	"errors"
	"time"
)

// refusalPause is between two answers "no space" about a VG. A burst that one node refuses at once goes as one to the next
// node, and is refused there; refused one by one, with capacity published meanwhile, it spreads (8 nodes and 40 pods: 18.5 s instead
// of 54).
const refusalPause = 400 * time.Millisecond

// beforeDeadline is how long before its caller stops listening a refusal is answered at the latest: one that nobody hears
// has the provisioner ask this node again.
const beforeDeadline = time.Second

// refuse holds an error that sends the pod to another node back until its turn. It may be answered at any time: with no space
// nothing is left behind. Other errors are answered at once.
func (d *Driver) refuse(ctx context.Context, vg string, err error) error {
	if !errors.Is(err, errExhausted) || d.refusalPause == 0 {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-beforeDeadline))
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)() // the driver stops
	if release, err := d.refusals.take(ctx, vg); err == nil {
		time.AfterFunc(d.refusalPause, release)
	}
	return err
}
