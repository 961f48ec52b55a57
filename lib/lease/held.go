package lease

import (
	"context"
	"errors"
	"fmt"

	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/lock"
	"gresnet/lib/node"
)

// holdersIn says who holds what, as a table has it.
func holdersIn(t *lock.Table) func(node.ID) (gres.Holder, bool) {
	return func(id node.ID) (gres.Holder, bool) {
		c, held := t.Holder(id)
		return gres.Holder{Job: c.Job, Since: c.Since, Quarantined: c.Quarantined}, held
	}
}

// takeFree takes what a job is to have, and waits for what others hold of it as
// long as they are about to give it back.
func (n *Node) takeFree(ctx context.Context, j job.Job, wants []gres.Want) error {
	for {
		err := n.take(ctx, j, wants)
		var taken *gres.Taken
		if !errors.As(err, &taken) || errors.Is(err, ErrRemains) {
			return err
		}
		held := n.outlastAny(ctx, j.ID, taken.By)
		if held == nil {
			continue
		}
		if shared := taken.Shared(); shared != nil && errors.Is(held, errLives) {
			return shared
		}
		return err
	}
}

// outlastAny is nil if some of what a job could not have is free now: the epilog
// of a job that held it was running still, or never ran and never will.
func (n *Node) outlastAny(ctx context.Context, id uint32, held []gres.Holding) error {
	all := errAlive
	for _, by := range held {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if by.Holder.Quarantined != "" {
			continue
		}
		err := n.outlast(ctx, id, by)
		if err == nil {
			return nil
		}
		all = err
	}
	return all
}

// outlast is nil if a holder has its HCA no more, or it is quarantined now: it
// waits for an epilog that runs, and sweeps a job that is gone.
func (n *Node) outlast(ctx context.Context, id uint32, by gres.Holding) error {
	holder, name := by.Holder.Job, by.Entry.HCA.Name
	for {
		if c, still := n.holder(by.Entry.HCA.ID); !still || c.Job != holder || c.Quarantined != "" {
			return nil
		}
		err := n.sweep(ctx, holder, Sweep{})
		if err == nil {
			n.tell(LeaseSwept, holder, "swept: it was gone and held %s", name)
			return nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			n.tell(LeaseSpared, holder, "not swept: %s", err)
			return err
		}
		// We hold no HCA, so nobody who waits for us can hold that lock.
		n.notice(id, "waits for the prolog or epilog of job %d, which has %s", holder, name)
		if err := n.waitForJob(ctx, holder); err != nil {
			n.notice(id, "waited in vain: %s", err)
			return err
		}
	}
}

// holder is who has an HCA now.
func (n *Node) holder(id node.ID) (lock.Claim, bool) {
	t, err := n.table().Read()
	if err != nil {
		return lock.Claim{}, true // in doubt it is held
	}
	return t.Holder(id)
}

// claimFault names the job whose claim failed.
func claimFault(id uint32, err error) error {
	var taken *gres.Taken
	if errors.As(err, &taken) {
		return fmt.Errorf("claim HCAs for job %d: %w", id, err)
	}
	return err
}
