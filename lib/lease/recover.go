package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"gresnet/lib/hint"
	"gresnet/lib/journal"
	"gresnet/lib/lock"
	"gresnet/lib/netns"
)

// recover opens a lease whose journal does not say whose it is. A prolog that
// was killed between making the journal and writing its first line leaves such
// a one, too: it has done nothing then, and there is no lease.
func (n *Node) recover(ctx context.Context, id uint32, why string) (*open, error) {
	claims := claimsOf(n.readable(id), id)
	if len(claims) == 0 && !n.begun(id) {
		return nil, errNoLease
	}
	if _, err := os.Lstat(n.dir(id)); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoLease // and claims that nobody holds: see abandoned
	}
	h := journal.Header{Version: journal.Version, Job: id}
	if len(claims) > 0 {
		h.Run = claims[0].Run // an earlier run's are unwound before there is a later one
	}
	host, err := firstNamespace(id)
	if err != nil {
		return nil, err
	}
	book, err := journal.Open(journalIn(n.dir(id)))
	if errors.Is(err, fs.ErrNotExist) {
		book, err = journal.Create(journalIn(n.dir(id)), h)
	}
	if err != nil {
		host.Close()
		return nil, err
	}
	book.Header = h
	l := n.enter(ctx, n.dir(id), book, host)
	l.lost = why
	return l, nil
}

// abandoned frees what a job holds that has no lease: somebody removed it. What
// is not on the node is kept from later jobs, once and for all.
func (n *Node) abandoned(ctx context.Context, id uint32) error {
	if err := removeDir(n.dir(id)); err != nil {
		return err
	}
	t := n.readable(id)
	uplinks := n.dropUplinks(ctx, id, t)
	held := slices.DeleteFunc(claimsOf(t, id), func(c lock.Claim) bool { return c.Quarantined != "" })
	if len(held) == 0 {
		return uplinks // as far as is known: most jobs never had a lease
	}
	return errors.Join(uplinks, n.freeForgotten(ctx, id, func(c lock.Claim) bool { return c.Job == id && c.Quarantined == "" }))
}

// freeForgotten is freeHome for a job whose lease is gone, and with it all memory of
// what interfaces had: that they are home does not say that they are as they were.
func (n *Node) freeForgotten(ctx context.Context, id uint32, is func(lock.Claim) bool) error {
	before := n.readable(id)
	err := n.freeHome(ctx, is)
	now := n.readable(id)
	for _, c := range before.Claims {
		if _, held := now.Holder(c.HCA); is(c) && !held {
			n.Log(Event{Kind: Remark, Job: id, HCA: c.HCA.String(), Warning: fmt.Sprintf(
				"%s is free again, but its lease is gone, and nobody remembers what its interfaces had: see whether they are as they should be", c.Name)})
		}
	}
	return err
}

// readable is the table as far as it can be read.
func (n *Node) readable(id uint32) lock.Table {
	t, err := n.table().Read()
	if err != nil {
		n.notice(id, "%s", err)
	}
	return t
}

// claimsOf are a job's claims in a table.
func claimsOf(t lock.Table, id uint32) (claims []lock.Claim) {
	for _, c := range t.Claims {
		if c.Job == id && !c.Doubt {
			claims = append(claims, c)
		}
	}
	return claims
}

// firstNamespace is home when no journal says which namespace that is: the one
// that process 1 is in, if this process is in it, too.
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
		err := fmt.Errorf("%w: open the lease of job %d: nothing says in which network namespace it was taken", ErrDamaged, id)
		return nil, hint.With(err, "run it in the node's root network namespace: nsenter -t 1 -n")
	}
	return host, nil
}

// foreign keeps the HCAs of a lease that another version of gresnet took from
// everybody: what it did is not guessed.
func (n *Node) foreign(ctx context.Context, id uint32, cause error) error {
	err := n.table().Update(ctx, func(t *lock.Table) error {
		for i, c := range t.Claims {
			if c.Job == id && c.Quarantined == "" {
				t.Claims[i].Quarantined = cause.Error()
			}
		}
		return nil
	})
	if err != nil {
		n.notice(id, "%s", err)
	}
	err = fmt.Errorf("%w: open the lease of job %d: %w", ErrDamaged, id, cause)
	return hint.With(err, fmt.Sprintf("run gresnet-epilog of the version that wrote it, with SLURM_JOB_ID=%d", id))
}
