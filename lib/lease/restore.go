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
	"gresnet/lib/state/table"
)

// Restore returns to the node the HCAs of a run of a job, or those of the job if run is nil. If there
// is no lease, Restore succeeds. It leaves a lease of a later run alone.
//
// It waits for the lease for half of its time at most: the other half is for undoing.
//
// If it fails and the lease is still there, the error is ErrRemains.
func (n *Host) Restore(ctx context.Context, id uint32, run *job.Run) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog/2)
	defer cancel()
	if err := n.State.Make(); err != nil {
		return err
	}
	if err := n.readTable(id); err != nil {
		n.Notice(id, "%s", err) // the rollback does not need the node table
	}
	restoreLost(ctx, n.Host, false)
	err := underLock(ctx, n.Host, id, func() error {
		return withLease(ctx, n.Host, id, func(l *Lease) error { return n.restore(l, id, run, begun) })
	})
	if err != nil && n.State.Lease(id).Exists() {
		return remains(err)
	}
	return err
}

// restore does what Restore does with the job's lock and its lease; l is nil if there is none. The epilog began at begun.
func (n *Host) restore(l *Lease, id uint32, run *job.Run, begun time.Time) error {
	if l == nil {
		if s := n.State.ReadRecord(id); s == nil || !isLater(s.Run, run) {
			environment.Forget(n.Host, id)
		}
		return nil
	}
	if held, err := job.ParseRun(l.World.Run); err == nil && isLater(held, run) {
		n.Notice(id, "the lease is run %s's, this is run %s's epilog: left alone", l.World.Run, run)
		return nil
	}
	environment.Forget(n.Host, id)
	// The wait for the lock is a part of the run's time.
	l.Until = begun.Add(max(n.Config.Deadline.Epilog, l.UndoTime()))
	known := n.areQuarantined(id)
	err := l.Rollback()
	if late := (LateError{}); known && run != nil && errors.As(err, &late) {
		n.Log(event.Event{Kind: event.Remark, Job: id, Warning: "as before, " + err.Error(), ID: hint.ID(err)})
		err = nil
	}
	return hint.Join(err, l.Complaint)
}

// areQuarantined tells whether all HCAs of a job are quarantined. An earlier run has told Slurm so, and once is enough: the
// job's user may keep them so.
func (n *Host) areQuarantined(id uint32) bool {
	t := n.Readable(id)
	claims := t.ClaimsOf(id)
	return len(claims) > 0 && !slices.ContainsFunc(claims, func(c table.Claim) bool { return c.Quarantined == "" })
}

// isLater tells whether a run of a job came after the run that this epilog is for. If that is nil, no run did.
func isLater(held job.Run, run *job.Run) bool { return run != nil && held.Restart > run.Restart }
