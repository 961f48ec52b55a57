package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/state/runs"
	"gresnet/lib/state/table"
)

// Restore takes back what a run of a job holds, or whatever the job holds if run is nil. If there
// is no lease, Restore succeeds; it leaves a lease of a later run alone.
//
// It waits for the lease half of its time at most: the other half is for undoing.
//
// After an error with which the lease is still there the error is ErrRemains.
func (n *Host) Restore(ctx context.Context, id uint32, run *job.Run) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog/2)
	defer cancel()
	if err := n.State.Make(); err != nil {
		return err
	}
	if err := n.readTable(id); err != nil {
		n.Notice(id, "%s", err) // the unwinding does not need the node table
	}
	restoreLost(ctx, n.Host, false)
	err := underLock(ctx, n.Host, id, func() error { return n.restoreLocked(ctx, id, run, begun) })
	if err != nil && n.State.Lease(id).Exists() {
		return remains(err)
	}
	return err
}

// restoreLocked does what Restore does with the job's lock. The epilog began at begun.
func (n *Host) restoreLocked(ctx context.Context, id uint32, run *job.Run, begun time.Time) error {
	l, err := open(ctx, n.Host, id)
	if errors.Is(err, ErrNone) {
		if s := runs.Of(n.State, id); s == nil || !isLater(s.Run, run) {
			environment.Forget(n.Host, id)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	if held, err := job.ParseRun(l.World.Run); err == nil && isLater(held, run) {
		n.Notice(id, "the lease is run %s's, this is run %s's epilog: left alone", l.World.Run, run)
		return nil
	}
	environment.Forget(n.Host, id)
	// The wait for the lock is a part of the run's time.
	l.Until = begun.Add(max(n.Config.Deadline.Epilog, l.UndoTime()))
	known := n.areQuarantined(id)
	err = l.Unwind()
	if late := (LateError{}); known && run != nil && errors.As(err, &late) {
		n.Log(event.Event{Kind: event.Remark, Job: id, Warning: "as before, " + err.Error(), ID: hint.ID(err)})
		err = nil
	}
	return hint.Join(err, l.Complaint)
}

// areQuarantined tells whether all HCAs that a job has are quarantined. An earlier run has said so, and Slurm needs to
// hear of it but once: its user may keep them so.
func (n *Host) areQuarantined(id uint32) bool {
	t := n.Readable(id)
	claims := t.ClaimsOf(id)
	return len(claims) > 0 && !slices.ContainsFunc(claims, func(c table.Claim) bool { return c.Quarantined == "" })
}

// isLater tells whether a run of a job came after the one whose epilog this is; nil means that it is the last one's.
func isLater(held job.Run, run *job.Run) bool { return run != nil && held.Restart > run.Restart }
