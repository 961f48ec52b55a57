package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/state"
)

// Picture reads who can open the node's own device nodes.
func (n *Host) Picture() (devnode.Picture, error) { return n.nodes().Picture(!n.State.IsMade()) }

// Redo takes back what Reopen said: runs restrict device nodes again.
func (n *Host) Redo() error { return state.Remove(n.State.Undone()) }

// Reopen opens the node's own device nodes to users again, as setup found them. From then on no
// run restricts them, before Redo or the next boot. A prolog may have begun before: if a job has a
// lease in the end, Reopen restricts all again and fails.
func (n *Host) Reopen(ctx context.Context, had devnode.Picture, udev func([]string) (bool, error)) error {
	if err := n.Idle(ctx); err != nil {
		return err
	}
	// Runs that have begun restrict none any more, either.
	err := n.withAccess(ctx, func() error { return os.WriteFile(n.State.Undone(), nil, 0o600) })
	if err != nil {
		return err
	}
	err = hint.Join(n.nodes().Reopen(had, udev), n.Idle(ctx))
	if err != nil {
		return hint.Join(err, n.Redo(), n.RestrictNodes(ctx))
	}
	return n.dropPorts(ctx)
}

// Idle fails if jobs hold HCAs of this node. First it returns the leases of jobs that are gone.
func (n *Host) Idle(ctx context.Context) error {
	jobs, err := n.Leased()
	if err == nil && len(jobs) > 0 {
		cleaned := n.Cleanup(ctx, Cleanup{})
		if jobs, err = n.Leased(); err == nil && len(jobs) == 0 {
			err = cleaned
		}
	}
	if err != nil || len(jobs) == 0 {
		return err
	}
	names := strings.Trim(fmt.Sprint(jobs), "[]")
	return hint.With(errors.New("these jobs hold HCAs of this node: "+names), "GN435 drain the node, wait for its jobs, then run it again; gresnet status says more")
}
