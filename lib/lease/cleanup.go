package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
)

// Cleanup says which leases a cleanup may return if their jobs are gone.
type Cleanup struct {
	Jobs []uint32 // these alone; all if there are none
	Boot bool     // slurmd does not run yet, so no job that has a lease can be about to start

	// hasty spares a job that may be about to start without a look whether it runs. Such a look
	// reads all processes of the node: many prologs that wait for one HCA would keep the
	// processors from the epilog that returns it.
	hasty bool
	// inTime has the cleanup end when its context does: a prolog waits for it. Without that, a lease that
	// is older than the configuration has the time that it was begun with.
	inTime bool
}

// Cleanup returns the leases of jobs that are gone and had no epilog. It never touches a live
// job's lease: if somebody named that job, Cleanup returns an error; it passes over others.
func (n *Host) Cleanup(ctx context.Context, s Cleanup) error {
	if err := n.readyAgain(s.Boot); err != nil {
		return err
	}
	jobs, err := n.jobsToCleanUp(s)
	if err != nil {
		return err
	}
	running := stepsOfAll(jobs)
	var failed []error
	for _, id := range jobs {
		err := running(id)
		if err == nil {
			err = n.cleanup(ctx, id, s)
		}
		failed = append(failed, n.tellCleanedUp(id, s, err))
	}
	if len(s.Jobs) == 0 {
		failed = append(failed, n.forgetGone(s.Boot))
	}
	restoreLost(ctx, n.Host, true)
	return hint.Join(failed...)
}

// jobsToCleanUp returns the jobs that have leases, or those of them that somebody named.
func (n *Host) jobsToCleanUp(s Cleanup) ([]uint32, error) {
	jobs, err := n.Leased()
	if err != nil || len(s.Jobs) == 0 {
		return jobs, err
	}
	for _, id := range s.Jobs {
		if !slices.Contains(jobs, id) {
			return nil, hint.With(fmt.Errorf("clean up job %d: it has no lease here", id), "GN212 gresnet status lists the leases")
		}
	}
	return slices.DeleteFunc(jobs, func(id uint32) bool { return !slices.Contains(s.Jobs, id) }), nil
}

// tellCleanedUp tells how the cleanup of a job ended, and returns what is an error for who asked for it.
func (n *Host) tellCleanedUp(id uint32, s Cleanup, err error) error {
	switch {
	case err == nil:
		n.Tell(event.LeaseCleanedUp, id, "cleaned up")
		return nil
	case errors.Is(err, errAlive) && len(s.Jobs) == 0:
		n.Tell(event.LeaseSpared, id, "not cleaned up: %s", err)
		return nil
	}
	err = fmt.Errorf("clean up job %d: %w", id, err)
	if errors.Is(err, errAlive) && hint.Of(err) == "" {
		return hint.With(err, "GN213 a cleanup leaves alone what still runs: end it first")
	}
	return err
}

// stepsOfAll looks for the steps of all jobs at once. It returns a function that returns errAlive for
// a job that had one. The others get a look of their own, later and with the lease's evidence (cleanup):
// such a look reads all processes of the node, which is too much to do for each of many that run.
func stepsOfAll(jobs []uint32) func(uint32) error {
	if len(jobs) < 2 {
		return func(uint32) error { return nil }
	}
	all, err := proc.LookForSteps()
	return func(id uint32) error {
		if steps, held := all.Of(id); err == nil && held == nil && len(steps) > 0 {
			return isStep(steps[0])
		}
		return nil
	}
}

// cleanup returns the lease of a job that is gone; otherwise the error is errAlive.
func (n *Host) cleanup(ctx context.Context, id uint32, s Cleanup) error {
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog)
	defer cancel()
	// The look at all processes of the node goes without the job's lock: its epilog may wait for
	// that.
	var d evidence
	err := n.leaseToCleanUp(ctx, id, func(l *Lease) (err error) {
		d, err = evidenceOf(l, s)
		return err
	})
	if err != nil || !d.lease {
		return err
	}
	seen, err := d.look()
	if err != nil {
		return err
	}
	return n.leaseToCleanUp(ctx, id, func(l *Lease) error {
		now, err := evidenceOf(l, s)
		if err != nil {
			return err
		}
		if now.since != d.since || now.marked != d.marked {
			return fmt.Errorf("%w: it started while its processes were looked for", errAlive)
		}
		if err := now.judge(seen, s); err != nil {
			return err
		}
		more := l.UndoTime() - n.Config.Deadline.Epilog // the lease may be older than the configuration
		l.Until, _ = ctx.Deadline()
		if !s.inTime {
			l.Until = l.Until.Add(max(0, more))
		}
		environment.Forget(n.Host, id)
		return l.Rollback()
	})
}

// leaseToCleanUp calls f with a job's lock and lease, if the job has one.
func (n *Host) leaseToCleanUp(ctx context.Context, id uint32, f func(*Lease) error) error {
	err := ifFree(n.Host, id, func() error {
		return withLease(ctx, n.Host, id, func(l *Lease) error {
			if l == nil {
				return nil
			}
			return f(l)
		})
	})
	if errors.Is(err, state.ErrHeld) {
		return fmt.Errorf("%w: a prolog or an epilog of it is running: %w", errAlive, err)
	}
	return err
}

// forgetGone removes what prologs left for the steps of jobs that are gone without an epilog and have
// no lease. A job whose prolog has just ended has no step yet.
func (n *Host) forgetGone(boot bool) error {
	var entries []fs.DirEntry
	for _, dir := range []string{n.State.Notices(), n.State.Records()} {
		some, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n.State.Fault(err)
		}
		entries = append(entries, some...)
	}
	for _, e := range entries {
		info, err := e.Info()
		id, bad := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || bad != nil || !boot && time.Since(info.ModTime()) < poll.Grace {
			continue
		}
		if err := n.forgetIfGone(uint32(id)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Host) forgetIfGone(id uint32) error {
	err := ifFree(n.Host, id, func() error {
		if n.State.Lease(id).Exists() {
			return nil // it goes with the lease
		}
		steps, err := proc.Steps(id)
		if err != nil || len(steps) > 0 {
			return err
		}
		environment.Forget(n.Host, id)
		return nil
	})
	if errors.Is(err, state.ErrHeld) {
		return nil
	}
	return err
}
