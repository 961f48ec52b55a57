// Package lease takes for a job what it holds on a node, and gives it back: the prolog takes, the
// epilog restores, and whoever comes after a run that did not end as it should unwinds.
//
// A lease is a directory, jobs/JOBID below the state directory: the journal, the network namespace,
// the job's device nodes, and env. env is written last and removed first: a lease counts while env
// is there and not before.
//
// Read take.go and restore.go first. wait.go, sweep.go and alive.go are about leases that others
// have or left; release.go is about quarantined HCAs. Package opened has what one lease does and
// undoes, package environment what the job reads. Package repair is the rare path: this file goes
// there if the node table or a journal does not read, or somebody has removed a lease.
package lease

import (
	"context"
	"errors"
	"time"

	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/lock"
	"gresnet/lib/opened"
	"gresnet/lib/recovery"
	"gresnet/lib/repair"
	"gresnet/lib/sign"
	"gresnet/lib/source"
)

// What becomes of a lease that does not end as it should.
var (
	ErrRemains = opened.ErrRemains
	ErrLost    = opened.ErrLost
	ErrDamaged = recovery.ErrDamaged
)

// Host is the node that leases are taken on.
type Host struct{ *host.Host }

// On is a node that leases are taken on.
func On(h *host.Host) *Host { return &Host{h} }

// ready says which jobs leave a sign of their prolog, before there is anything else, and makes the
// state directory, and the node table if that is damaged. start is when the job began that it is for.
func (n *Host) ready(ctx context.Context, start time.Time) error {
	if err := sign.Expect(n.State, source.Asked(n.Config), sign.Since(sign.Lasting, start)); err != nil {
		n.Notice(0, "%s", err) // only a site's mistake would show less
	}
	if err := n.State.Make(); err != nil {
		return err
	}
	return repair.Table(ctx, n.Host)
}

// again is ready for a run that only goes on with what others began: where nothing has run since the
// boot it makes nothing, for a node that has the packages alone must stay as it is.
func (n *Host) again(ctx context.Context) error {
	if !n.State.IsMade() {
		return nil
	}
	return n.ready(ctx, time.Time{})
}

// open opens a lease that somebody began, or returns opened.ErrNone.
func (n *Host) open(ctx context.Context, id uint32) (*opened.Lease, error) {
	l, err := opened.Open(ctx, n.Host, id)
	if err != nil && !errors.Is(err, opened.ErrNone) {
		return repair.Open(ctx, n.Host, id, err)
	}
	return l, err
}

// underLock calls f while nobody else touches the job's lease. If the lease is gone then, so is the
// lock's file.
func (n *Host) underLock(ctx context.Context, job uint32, f func() error) error {
	held, err := lock.Job(ctx, n.State.Locks(), job)
	if err != nil {
		return n.State.Fault(err)
	}
	return n.under(held, job, f)
}

func (n *Host) under(held *lock.File, job uint32, f func() error) error {
	err := f()
	if !n.State.Lease(job).Exists() {
		return hint.Join(err, held.Remove())
	}
	return hint.Join(err, held.Close())
}
