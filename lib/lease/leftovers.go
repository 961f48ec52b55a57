package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/opened"
	"gresnet/lib/lease/recovery"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
	"gresnet/lib/words/node"
)

// afterLeftovers calls take with the job's lock, when what earlier runs of the job left has ended. It does not call
// take if this run has its lease already.
func (n *Host) afterLeftovers(ctx context.Context, j job.Job, take func() error) error {
	return opened.UnderLock(ctx, n.Host, j.ID, func() error {
		if own, err := n.endLeftovers(ctx, j); own || err != nil {
			return err
		}
		return take()
	})
}

// hasLeftovers tells whether earlier runs of a job left a lease, something for the job's steps, or a
// claim whose lease somebody removed. In doubt they did.
func (n *Host) hasLeftovers(id uint32) bool {
	if n.State.Lease(id).Exists() || environment.Remembers(n.Host, id) {
		return true
	}
	t := n.Readable(id)
	return len(t.ClaimsOf(id))+len(t.UplinksOf(id)) > 0
}

// endLeftovers ends what earlier runs of a job left. own says that this run has its lease already.
func (n *Host) endLeftovers(ctx context.Context, j job.Job) (own bool, err error) {
	if !n.hasLeftovers(j.ID) {
		return false, nil
	}
	l, err := n.open(ctx, j.ID)
	if err == nil {
		defer l.Close()
		if l.World.Dir.Counts() && l.World.Run == j.Run.String() {
			n.Notice(j.ID, "the lease is there already")
			return true, nil
		}
		n.Notice(j.ID, "unwinding what run %s left", l.World.Run)
		err = l.Unwind()
	}
	if err == nil || errors.Is(err, opened.ErrNone) {
		err = n.endWithoutLease(ctx, j.ID)
	}
	if err != nil {
		return false, opened.Remains(err)
	}
	return false, nil
}

// endWithoutLease ends what a job has that has no lease: what a prolog left for its steps, and what is
// still in the node table if somebody removed a lease.
func (n *Host) endWithoutLease(ctx context.Context, id uint32) error {
	environment.Forget(n.Host, id)
	return endRemoved(ctx, n.Host, id)
}

// open opens a lease that somebody began, or returns opened.ErrNone.
func (n *Host) open(ctx context.Context, id uint32) (*opened.Lease, error) {
	l, err := opened.Open(ctx, n.Host, id)
	if err != nil && !errors.Is(err, opened.ErrNone) {
		return openDamaged(ctx, n.Host, id, err)
	}
	return l, err
}

// openDamaged opens a lease that opened.Open cannot open, and cause is why.
func openDamaged(ctx context.Context, h *host.Host, id uint32, cause error) (*opened.Lease, error) {
	var headless opened.HeadlessError
	switch {
	case errors.Is(cause, journal.ErrVersion):
		return nil, foreign(ctx, h, id, cause)
	case errors.As(cause, &headless):
		return openHeadless(ctx, h, id, headless.Why)
	}
	return nil, cause
}

// openHeadless opens a lease whose journal does not say whose it is. A prolog that was killed before it
// wrote the journal's first line leaves such a journal, too: it has done nothing then, and there is
// no lease.
func openHeadless(ctx context.Context, h *host.Host, id uint32, why string) (*opened.Lease, error) {
	dir := h.State.Lease(id)
	t := h.Readable(id)
	claims := t.ClaimsOf(id)
	if len(claims) == 0 && !dir.Begun() {
		return nil, opened.ErrNone
	}
	header := journal.Header{Version: journal.Version, Job: id}
	if len(claims) > 0 {
		header.Run = claims[0].Run // an earlier run's are unwound before there is a later one
	}
	ns, err := firstNamespace(id)
	if err != nil {
		return nil, err
	}
	book, err := journal.Open(dir.Journal())
	if errors.Is(err, fs.ErrNotExist) {
		book, err = journal.Create(dir.Journal(), header)
	}
	if err != nil {
		ns.Close()
		return nil, err
	}
	book.Header = header
	return opened.Headless(ctx, h, dir, book, ns, why), nil
}

// endRemoved ends what a job without a lease still has in the node table: somebody removed the lease,
// since a claim is in the lease's journal before it is in the table, and leaves the table before
// the lease goes. endRemoved keeps the HCAs from later jobs until a person has seen them, and says so
// once.
func endRemoved(ctx context.Context, h *host.Host, id uint32) error {
	if err := h.State.Lease(id).Remove(); err != nil {
		return opened.Remains(err)
	}
	t := h.Readable(id)
	claims, uplinks := t.ClaimsOf(id), t.UplinksOf(id)
	if len(claims) == 0 && len(uplinks) == 0 {
		return nil // as far as is known: most jobs never had a lease
	}
	l, done, err := h.LookFor(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	var failed []error
	for _, u := range uplinks {
		l.World.Run = u.Run
		err := network.UplinkFrom(u).Undo(l.World)
		if err != nil {
			err = opened.Remains(err)
		} else {
			err = network.ForgetUplink(l.World)
		}
		failed = append(failed, err)
	}
	if len(claims) > 0 {
		if err := new(network.Overlay).Undo(l.World); err != nil {
			failed = append(failed, opened.Remains(err))
		}
		failed = append(failed, distrust(l, &t, claims))
	}
	return hint.Join(failed...)
}

// distrust quarantines claims whose lease is gone: the HCAs may be home, but nobody knows any more
// what their interfaces had.
func distrust(l *host.Look, t *table.Table, claims []table.Claim) error {
	h, job := l.Host, l.World.Job
	away := map[node.ID]string{}
	var what []string
	for _, c := range claims {
		away[c.HCA] = forgotten(l, t, c.HCA)
		what = append(what, fmt.Sprintf("%s is quarantined: %s", cmp.Or(c.Name, c.HCA.String()), away[c.HCA]))
	}
	err := h.Table().Update(l.World.Context, func(t *table.Table) error {
		for i, c := range t.Claims {
			if reason, is := away[c.HCA]; is && c.Job == job {
				t.Claims[i].Doubt, t.Claims[i].Quarantined = true, reason
			}
		}
		return nil
	})
	if err != nil {
		return opened.Remains(h.State.Fault(err))
	}
	h.TellQuarantines(job, away)
	err = fmt.Errorf("%w: job %d: %s", recovery.ErrDamaged, job, strings.Join(what, "; "))
	return opened.Remains(hint.With(err, "GN225 see whether the HCA is as it should be, then run: gresnet release HCA"))
}

// forgotten says why later jobs do not get an HCA whose lease somebody removed. It adds where the
// HCA is missing, if it can find that out.
func forgotten(l *host.Look, t *table.Table, id node.ID) string {
	const reason = "its lease was removed: nobody remembers what its interfaces had"
	absent, err := l.Absent(t, id)
	if errors.Is(err, world.ErrGone) {
		return reason + "; " + err.Error()
	}
	if err == nil && absent != "" {
		return reason + "; " + absent
	}
	return reason
}

// firstNamespace returns the node's root namespace if no journal says which one that is: the
// namespace of process 1, if this process is in it, too.
func firstNamespace(id uint32) (*netns.NS, error) {
	host, err := netns.Current()
	if err != nil {
		return nil, err
	}
	first, err := netns.Open("/proc/1/ns/net")
	if err != nil {
		host.Close()
		return nil, err
	}
	defer first.Close()
	if first.String() != host.String() {
		host.Close()
		err := fmt.Errorf("%w: open the lease of job %d: nothing says in which network namespace it was taken", recovery.ErrDamaged, id)
		return nil, hint.With(err, "GN226 run it in the node's root network namespace: nsenter -t 1 -n")
	}
	return host, nil
}

// foreign keeps the HCAs of a lease that another version of gresnet took from all jobs: this
// version does not guess what that one did.
func foreign(ctx context.Context, h *host.Host, id uint32, cause error) error {
	err := h.Table().Update(ctx, func(t *table.Table) error {
		for i, c := range t.Claims {
			if c.Job == id && c.Quarantined == "" {
				t.Claims[i].Quarantined = cause.Error()
			}
		}
		return nil
	})
	if err != nil {
		h.Notice(id, "%s", err)
	}
	err = fmt.Errorf("%w: open the lease of job %d: %w", recovery.ErrDamaged, id, cause)
	return hint.With(err, fmt.Sprintf("GN227 run gresnet-epilog of the version that wrote it, with SLURM_JOB_ID=%d", id))
}
