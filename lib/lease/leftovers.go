package lease

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"gresnet/lib/base/job"
	"gresnet/lib/lease/environment"
)

// hasLeftovers tells whether earlier runs of a job left a lease, something for the job's steps, or a claim whose lease
// somebody removed. In doubt they did.
func (n *Host) hasLeftovers(id uint32) bool {
	for _, path := range []string{string(n.State.Lease(id)), n.State.Notice(id), n.State.Record(id)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	t := n.Readable(id)
	_, has := t.RunOf(id)
	return has
}

// afterLeftovers ends what earlier runs of a job left, and then calls take, all with the job's lock. If this run has its
// lease already, it does not call take. If something stays because time is lacking, it refuses the job.
func (n *Host) afterLeftovers(ctx context.Context, j job.Job, take func() error) error {
	return underLock(ctx, n.Host, j.ID, func() error {
		own := false
		err := withLease(ctx, n.Host, j.ID, func(l *Lease) (err error) {
			own, err = n.endLeftovers(l, j)
			return err
		})
		if !own && err == nil {
			err = take()
		}
		if late := (LateError{}); errors.As(err, &late) {
			refusal := stays(j, err)
			return n.refuseBeside(j, refusal)
		}
		return err
	})
}

// endLeftovers rolls back the lease that a job has, unless own: then it is this run's. l is nil if there is none.
func (n *Host) endLeftovers(l *Lease, j job.Job) (own bool, err error) {
	if l != nil && l.World.Dir.Counts() && l.World.Run == j.Run.String() {
		n.Notice(j.ID, "the lease is there already")
		return true, nil
	}
	if l != nil {
		n.Notice(j.ID, "rolling back what run %s left", l.World.Run)
		if err := l.Rollback(); err != nil {
			return false, remains(err)
		}
	}
	environment.Forget(n.Host, j.ID)
	return false, nil
}
