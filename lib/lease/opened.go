package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
)

// errNone means that a job has no lease: its journal has no entry, so nothing was done.
var errNone = errors.New("no lease")

// ErrRemains means that the node is not as it was, and that the journal says which steps are left to undo.
// It is the one failure that needs a person.
var ErrRemains = errors.New("something remains to be undone")

// remains marks an error as one that leaves something to undo.
func remains(err error) error {
	if errors.Is(err, ErrRemains) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRemains, err)
}

// LateError is the error of a rollback that only lacked time: the machine is slow, or the kernel waits for a process
// that keeps an HCA. Users can cause both.
type LateError struct{ Cause error }

func (e LateError) Error() string { return e.Cause.Error() }
func (e LateError) Unwrap() error { return e.Cause }

// remaining returns the error of a rollback whose steps failed.
func remaining(failed []error) error {
	err := hint.Join(failed...)
	if !slices.ContainsFunc(failed, func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) }) {
		err = LateError{err}
	}
	return remains(err)
}

// Lease is an open lease.
type Lease struct {
	Host    *host.Host
	World   *world.World
	Journal *journal.Journal
	Until   time.Time // when a rollback must end; zero: UndoTime after it began

	// Complaint is the node's fault by the site's program for the end of a lease.
	Complaint error

	writes   writes
	headless string            // why the journal's beginning is not known, empty if it is
	passed   bool              // the journal has entries about HCAs that another lease has by now
	lost     []string          // pieces of HCAs that the node has lost, as the rollback found
	unmarked map[node.ID]error // HCAs that are back, and why the journal does not say so
	unused   bool              // no program of the job has run
	again    bool              // an earlier rollback, or a prolog, ended in its midst
	carried  map[node.ID][]counters.Traffic
}

// underLock calls f with a job's lock, so that no other run touches the job's lease. If the lease is gone after f, it
// removes the lock's file.
func underLock(ctx context.Context, h *host.Host, job uint32, f func() error) error {
	held, err := state.LockJob(ctx, h.State.Locks(), job)
	if err != nil {
		return h.State.Fault(err)
	}
	return under(held, h, job, f)
}

// ifFree calls f like underLock. If another run has the lock, it returns state.ErrHeld.
func ifFree(h *host.Host, job uint32, f func() error) error {
	held, err := state.TryLockJob(h.State.Locks(), job)
	if errors.Is(err, state.ErrHeld) {
		return err
	}
	if err != nil {
		return h.State.Fault(err)
	}
	return under(held, h, job, f)
}

func under(held *state.Lock, h *host.Host, job uint32, f func() error) error {
	err := f()
	if !h.State.Lease(job).Exists() {
		return hint.Join(err, held.Remove())
	}
	return hint.Join(err, held.Close())
}

// create starts a lease that does not exist.
func create(ctx context.Context, h *host.Host, j job.Job) (*Lease, error) {
	dir := h.State.Lease(j.ID)
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("create a lease for job %d: %w", j.ID, err)
	}
	ns, err := netns.Current()
	if err != nil {
		return nil, hint.Join(err, dir.Remove())
	}
	header := journal.Header{Job: j.ID, Run: j.Run.String(), Host: ns.String(), Since: proc.SinceBoot(), Undo: h.Config.Deadline.Epilog}
	undoLog, err := journal.Create(dir.Journal(), header)
	if err != nil {
		ns.Close()
		return nil, hint.Join(err, dir.Remove())
	}
	return enter(ctx, h, dir, undoLog, ns), nil
}

// withLease calls f with a job's lease, which it opens and closes; l is nil if the job has none. The caller has the
// job's lock.
func withLease(ctx context.Context, h *host.Host, id uint32, f func(l *Lease) error) error {
	l, err := open(ctx, h, id)
	if errors.Is(err, errNone) {
		return f(nil)
	}
	if err != nil {
		return remains(err)
	}
	defer l.Close()
	return f(l)
}

// open opens a job's lease, or returns errNone.
func open(ctx context.Context, h *host.Host, id uint32) (*Lease, error) {
	dir := h.State.Lease(id)
	undoLog, err := journal.Open(dir.Journal())
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && undoLog.Header == (journal.Header{}):
		return openHeadless(ctx, h, id, undoLog)
	case errors.Is(err, journal.ErrVersion):
		return nil, foreign(ctx, h, id, err)
	case err != nil:
		return nil, err
	}
	ns, err := netns.Current()
	if err != nil {
		undoLog.Close()
		return nil, err
	}
	if undoLog.Header.Host != "" && undoLog.Header.Host != ns.String() {
		undoLog.Close()
		ns.Close()
		err := fmt.Errorf("open the lease of job %d: it was taken in another network namespace than this", id)
		return nil, hint.With(err, "GN217 run it in the node's root network namespace")
	}
	return enter(ctx, h, dir, undoLog, ns), nil
}

// enter returns an open lease, whose journal says what the job has.
func enter(ctx context.Context, h *host.Host, dir state.Lease, undoLog *journal.Journal, ns *netns.NS) *Lease {
	job := undoLog.Header.Job
	w := h.World(ctx, ns, dir, job)
	w.CM, w.Run, w.Managers = h.CM, undoLog.Header.Run, world.Managers{Run: h.Run}
	w.Warn = func(id node.ID, problem error) {
		h.Log(event.Event{Kind: event.PortWorse, Job: job, HCA: id.String(), Warning: problem.Error(), Err: problem, ID: hint.ID(problem)})
	}
	return &Lease{Host: h, Journal: undoLog, World: w}
}

// Look returns a Look at the node for the lease's job.
func (l *Lease) Look() *host.Look { return l.Host.LookIn(l.World) }

// Close closes the files of the lease, and changes nothing of it.
func (l *Lease) Close() {
	l.Host.Took(fmt.Sprintf("write the lease's journal, %d times; part of what is above", l.writes.count), l.writes.took)
	l.World.Close()
	l.World.Root.Close()
	l.Journal.Close()
}

// UndoTime returns how long a rollback may take.
func (l *Lease) UndoTime() time.Duration {
	switch {
	case !l.Until.IsZero():
		return time.Until(l.Until)
	case l.Host.Undo > 0:
		return l.Host.Undo
	case l.Journal.Header.Undo > 0:
		return l.Journal.Header.Undo
	}
	return config.Default().Deadline.Epilog
}
