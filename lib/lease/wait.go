package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// errQuarantined means that no job holds the HCA: it is quarantined.
var errQuarantined = errors.New("it is quarantined")

// waitForAnyHolder returns nil if one of the HCAs that others have is free now: the epilog of its job was still
// running, or never ran and never will. Otherwise it returns why the job does not get them. Before a shared HCA's
// job is refused, it waits until it knows whether the jobs run.
func (n *Host) waitForAnyHolder(ctx context.Context, id uint32, taken *gres.Taken) error {
	shared := taken.Shared()
	held := errQuarantined
	for _, by := range taken.By {
		if err := ctx.Err(); err != nil {
			held = err
			break
		}
		if by.Holder.Quarantined != "" {
			continue
		}
		if held = n.waitForHolder(ctx, id, by, shared != nil); held == nil {
			return nil
		}
	}
	switch {
	case shared != nil && errors.Is(held, errLives):
		return shared
	case errors.Is(held, errAlive):
		return taken.Spared(held)
	}
	return taken
}

// waitForHolder returns nil if a holder does not have its HCA any more, or the HCA is quarantined
// now. It waits for an epilog that runs, and cleans up after a job that is gone. If certain, it also waits
// while a job neither runs nor is gone for sure: the extern step begins a moment after the prolog
// has ended, and the epilog a moment after the last step.
func (n *Host) waitForHolder(ctx context.Context, id uint32, by gres.Holding, certain bool) error {
	holder, name := by.Holder.Job, by.Entry.HCA.Name
	free := time.Now() // since when, as far as is known, no prolog or epilog of the holder runs
	for doubts := 0; ; {
		if !n.holds(holder, by.Entry.HCA.ID) {
			return nil
		}
		looked := time.Now()
		err := n.cleanup(ctx, holder, Cleanup{inTime: true, hasty: !certain || looked.Sub(free) < poll.Hasty})
		switch {
		case err == nil:
			n.Tell(event.LeaseCleanedUp, holder, "cleaned up: it was gone and held %s", name)
			return nil
		case errors.Is(err, state.ErrHeld):
			// This run holds no HCA, so no run that waits for it can hold that lock.
			n.Notice(id, "waits for the prolog or epilog of job %d, which has %s", holder, name)
			if err := underLock(ctx, n.Host, holder, func() error { return nil }); err != nil {
				n.Notice(id, "waited in vain: %s", err)
				return err
			}
			free = time.Now()
		case certain && inDoubt(err) && ctx.Err() == nil:
			if doubts == 0 {
				n.Notice(id, "waits until job %d, which has %s, runs or is gone for sure: %s", holder, name, err)
			}
			doubts++
			n.rest(ctx, by, poll.Holder.Pause(doubts, 0), time.Since(looked))
		default:
			n.Tell(event.LeaseSpared, holder, "not cleaned up: %s", err)
			if !n.holds(holder, by.Entry.HCA.ID) {
				return nil // the cleanup has ended the lease, and found something wrong
			}
			return err
		}
	}
}

// inDoubt tells whether a job that a cleanup has spared may still be gone.
func inDoubt(err error) bool { return errors.Is(err, errAlive) && !errors.Is(err, errLives) }

// rest waits before the next look at all processes of the node: eight times as long as the last
// look took, so that dozens of prologs leave the processors to the jobs. It returns early if the
// claim or the extern step's mark changes.
func (n *Host) rest(ctx context.Context, by gres.Holding, wait, took time.Duration) {
	holder := by.Holder.Job
	had := n.State.Lease(holder).Marked()
	b := poll.Budget{Context: ctx}
	_, _ = b.Until(poll.Bound{Most: max(wait, 8*took), Least: wait}, func() (bool, error) { // no look fails
		return !n.holds(holder, by.Entry.HCA.ID) || n.State.Lease(holder).Marked() != had, nil
	})
}

// holds tells whether a job has an HCA that is not quarantined. If that cannot be read, the next try to
// take the HCA says why.
func (n *Host) holds(job uint32, id node.ID) bool {
	t, err := n.Table().Read()
	c, held := t.Holder(id)
	return err == nil && held && c.Job == job && c.Quarantined == ""
}

// reclaim gets back the HCAs that a job gets only if they are free: it waits for epilogs that run,
// and cleans up after jobs that are gone. Jobs that live keep theirs, and this job does without.
func (n *Host) reclaim(ctx context.Context, j job.Job, wants []gres.Want) error {
	if !slices.ContainsFunc(wants, func(w gres.Want) bool { return w.IfFree }) {
		return nil
	}
	t, err := n.Table().Read()
	if err != nil {
		return err
	}
	m, err := n.Mapped(&t)
	if err != nil {
		return err
	}
	for _, by := range gres.PassedOver(wants, m, host.HoldersIn(&t)) {
		if by.Holder.Quarantined != "" {
			continue
		}
		if err := n.waitForHolder(ctx, j.ID, by, false); err != nil {
			n.Notice(j.ID, "does without %s, which job %d has: %s", by.Entry.HCA.Name, by.Holder.Job, err)
		}
	}
	return nil
}
