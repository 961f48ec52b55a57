package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/event"
	"gresnet/lib/hint"
	"gresnet/lib/lock"
)

// Sweep says which leases a sweep may give back, of those whose job is gone.
type Sweep struct {
	Jobs []uint32 // these alone; all if there are none
	Boot bool     // slurmd does not run yet, so no job that has a lease can be about to start

	// hasty spares a job that may be about to start without a look whether it runs. That
	// look is at all processes of the node: many prologs that wait for one HCA would keep
	// the processors from the epilog that gives it back.
	hasty bool
}

// Sweep gives back the leases of jobs that are gone, which an epilog would have
// done if it had run. It never touches a live job's lease: a job that was named
// and lives is an error, others are passed over.
func (n *Host) Sweep(ctx context.Context, s Sweep) error {
	if err := n.ready(ctx); err != nil {
		return err
	}
	jobs, err := n.Leased()
	if err != nil {
		return err
	}
	for _, id := range s.Jobs {
		if !slices.Contains(jobs, id) {
			return hint.With(fmt.Errorf("sweep job %d: it has no lease here", id), "gresnet-prolog status lists the leases")
		}
	}
	var failed []error
	for _, id := range jobs {
		if len(s.Jobs) > 0 && !slices.Contains(s.Jobs, id) {
			continue
		}
		err := n.sweep(ctx, id, s)
		switch {
		case err == nil:
			n.Tell(event.LeaseSwept, id, "swept")
		case errors.Is(err, errAlive) && len(s.Jobs) == 0:
			n.Tell(event.LeaseSpared, id, "not swept: %s", err)
		default:
			err = fmt.Errorf("sweep job %d: %w", id, err)
			if errors.Is(err, errAlive) && hint.Of(err) == "" {
				err = hint.With(err, "a sweep leaves alone what still runs: end it first")
			}
			failed = append(failed, err)
		}
	}
	if len(s.Jobs) == 0 {
		failed = append(failed, n.removeGoneNotices(s.Boot))
	}
	n.restoreDeferredFor(ctx, 0)
	return hint.Join(failed...)
}

func (n *Host) sweep(ctx context.Context, id uint32, s Sweep) error {
	_, inProlog := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog)
	defer cancel()
	// All processes of the node are looked at without the job's lock, for which its epilog
	// may wait.
	var d signs
	err := n.leaseToSweep(ctx, id, func(l *open) (err error) {
		d, err = l.signs(s)
		return err
	})
	if err != nil || !d.lease {
		return err
	}
	seen, err := d.look()
	if err != nil {
		return err
	}
	return n.leaseToSweep(ctx, id, func(l *open) error {
		now, err := l.signs(s)
		if err != nil {
			return err
		}
		if now.since != d.since || now.marked != d.marked {
			return fmt.Errorf("%w: it started while its processes were looked for", errAlive)
		}
		if err := now.judge(seen, s); err != nil {
			return err
		}
		more := l.undoTime() - n.Config.Deadline.Epilog // the lease may be older than the configuration
		l.until, _ = ctx.Deadline()
		if !inProlog {
			l.until = l.until.Add(max(0, more))
		}
		n.removeNotice(id)
		return l.unwind()
	})
}

// leaseToSweep calls f with a job's lock and lease, or gives back what the job has without one.
func (n *Host) leaseToSweep(ctx context.Context, id uint32, f func(*open) error) error {
	held, err := lock.TryJob(n.Locks(), id)
	if errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("%w: a prolog or an epilog of it is running: %w", errAlive, err)
	}
	if err != nil {
		return n.StateFault(err)
	}
	return n.under(held, id, func() error {
		l, err := n.resume(ctx, id)
		if errors.Is(err, errNoLease) {
			return n.abandoned(ctx, id)
		}
		if err != nil {
			return remains(err)
		}
		defer l.close()
		return f(l)
	})
}

// waitForJob waits until no prolog or epilog of a job runs.
func (n *Host) waitForJob(ctx context.Context, id uint32) error {
	held, err := lock.Job(ctx, n.Locks(), id)
	if err != nil {
		return err
	}
	return n.under(held, id, func() error { return nil })
}
