package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"gresnet/lib/clock"
	"gresnet/lib/event"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/lock"
	"gresnet/lib/proc"
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

// grace is how old a lease must be at least to be swept without a sign that
// its job ever started: between the prolog's end and the job's first process
// a job can't be told from one that is gone.
const grace = 10 * time.Minute

// errAlive means that a job is not gone, or not for sure.
var errAlive = errors.New("the job is not gone")

// errLives means that it runs for sure: it has a step. A process that is left in its
// namespace is none of a job that Slurm knows of.
var errLives = errors.New("the job runs")

// living is an errAlive that is an errLives, too.
type living struct{ error }

func (l living) Unwrap() error        { return l.error }
func (l living) Is(target error) bool { return target == errLives }

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
				err = hint.With(err, "what lives is never swept: end it first")
			}
			failed = append(failed, err)
		}
	}
	if len(s.Jobs) == 0 {
		failed = append(failed, n.untellGone(s.Boot))
	}
	n.restoreDeferred(ctx, 0)
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
		n.removeJobNotice(id)
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

// alive is errAlive with the reason unless the lease's job is gone for sure.
func (l *open) alive(s Sweep) error {
	d, err := l.signs(s)
	if err != nil {
		return err
	}
	seen, err := d.look()
	if err != nil {
		return err
	}
	return d.judge(seen, s)
}

// signs is what a lease itself tells of whether its job is gone.
type signs struct {
	lease     bool // there is one
	job       uint32
	namespace string
	since     time.Duration // when the lease was made: it tells one run of a job from the next
	marked    bool          // it had an extern step
	expected  bool          // its extern step may come yet
	age       time.Duration
}

// signs is errAlive if the job is to be spared without a look at processes. What it tells is
// looked at before those: the process that made a mark, or brought another one into the
// namespace, was there before, and is seen then if it lives.
func (l *open) signs(s Sweep) (signs, error) {
	_, mark := os.Lstat(markIn(l.world.Dir))
	d := signs{lease: true, job: l.world.Job, since: l.journal.Header.Since, marked: mark == nil}
	d.age = clock.SinceBoot() - d.since
	// Without a mark none can come if the lease does not count, or there is no slurmd yet.
	d.expected = mark != nil && l.complete() && !s.Boot
	if d.expected && d.age < grace && s.hasty {
		return d, d.starting()
	}
	var err error
	d.namespace, err = l.world.Namespace()
	return d, err
}

func (d signs) starting() error {
	err := fmt.Errorf("%w: the lease of job %d is %s old, it may be about to start", errAlive, d.job, d.age.Round(time.Second))
	return hint.With(err, fmt.Sprintf("if squeue knows no job %d: SLURM_JOB_ID=%d gresnet-epilog", d.job, d.job))
}

// sight is what a look at the node's processes tells of a job.
type sight struct{ inside, steps []proc.Process }

// look looks for the job's processes.
func (d signs) look() (seen sight, err error) {
	if d.namespace != "" {
		if seen.inside, err = proc.Inside(d.namespace); err != nil {
			return seen, err
		}
	}
	seen.steps, err = proc.Steps(d.job)
	return seen, err
}

// judge is errAlive with the reason unless the job is gone for sure.
func (d signs) judge(seen sight, s Sweep) error {
	switch {
	case len(seen.steps) > 0:
		return living{fmt.Errorf("%w: %s is its step", errAlive, seen.steps[0])}
	case len(seen.inside) > 0:
		return fmt.Errorf("%w: no step of it runs, but %s is in its network namespace", errAlive, list(seen.inside))
	case !d.expected:
		return nil // it had an extern step once, and has none any more; or none can come
	case d.age < grace:
		return d.starting()
	case len(s.Jobs) == 0:
		return fmt.Errorf("%w: it never had an extern step, without which (PrologFlags=Contain) nothing tells that it ended; name it to sweep it", errAlive)
	}
	return nil
}

func list(processes []proc.Process) string {
	var names []string
	for _, p := range processes {
		names = append(names, p.String())
	}
	return host.FirstOf(names)
}

// waitForJob waits until no prolog or epilog of a job runs.
func (n *Host) waitForJob(ctx context.Context, id uint32) error {
	held, err := lock.Job(ctx, n.Locks(), id)
	if err != nil {
		return err
	}
	return n.under(held, id, func() error { return nil })
}
