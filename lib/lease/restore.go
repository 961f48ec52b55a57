package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/node"
)

// Restore takes back what a run of a job holds, or whatever the job holds if run
// is nil. No lease is success, and a lease of a later run is none of this run's
// business.
//
// For the lease it waits half of its time at most: the other half is for undoing.
//
// After an error with which the lease is still there the error is ErrRemains.
func (n *Host) Restore(ctx context.Context, id uint32, run *job.Run) error {
	begun := time.Now()
	all := n.Config.Deadline.Epilog
	ctx, cancel := context.WithTimeout(ctx, all/2)
	defer cancel()
	if err := n.prepare(); err != nil {
		return err
	}
	if err := n.rebuildTable(ctx); err != nil {
		// What the lease has can be undone without it.
		n.Notice(id, "%s", err)
	}
	err := n.underLock(ctx, id, func() error {
		l, err := n.resume(ctx, id)
		if errors.Is(err, errNoLease) {
			n.removeNotice(id)
			n.restoreDeferredFor(ctx, id)
			return n.abandoned(ctx, id)
		}
		if err != nil {
			return err
		}
		defer l.close()
		if held, err := job.ParseRun(l.world.Run); err == nil && run != nil && held.Restart > run.Restart {
			n.Notice(id, "the lease is run %s's, this is run %s's epilog: left alone", l.world.Run, run)
			return nil
		}
		n.removeNotice(id)
		// What was waited for the lease is a part of the run.
		l.until = begun.Add(max(all, l.undoTime()))
		return l.unwind()
	})
	if _, gone := os.Lstat(n.Dir(id)); err != nil && !errors.Is(gone, fs.ErrNotExist) {
		return remains(err)
	}
	return err
}

// remains marks an error as one that leaves something to be undone.
func remains(err error) error {
	if errors.Is(err, ErrRemains) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRemains, err)
}

// tellUsers tells which of a lease's HCAs no later job gets yet, when the lease is gone.
func (n *Host) tellUsers(job uint32, hcas []node.ID) {
	u, err := n.Users()
	if err != nil {
		n.Notice(job, "%s", err)
		return
	}
	defer u.Close()
	used := map[node.ID]string{}
	for _, id := range hcas {
		if by := u.Of(id); by != "" {
			used[id] = gres.Holder{User: by}.String()
		}
	}
	if u.Err != nil {
		n.Notice(job, "%s", u.Err)
	}
	n.TellQuarantines(job, used)
}
