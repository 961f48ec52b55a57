package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/netns"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/table"
)

// recover opens a lease whose journal does not say whose it is. A prolog that
// was killed between making the journal and writing its first line leaves such
// a one, too: it has done nothing then, and there is no lease.
func (n *Host) recover(ctx context.Context, id uint32, why string) (*open, error) {
	claims := recovery.ClaimsOf(n.Readable(id), id)
	if len(claims) == 0 && !n.begun(id) {
		return nil, errNoLease
	}
	if _, err := os.Lstat(n.Dir(id)); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoLease // and claims that nobody holds: see abandoned
	}
	h := journal.Header{Version: journal.Version, Job: id}
	if len(claims) > 0 {
		h.Run = claims[0].Run // an earlier run's are unwound before there is a later one
	}
	ns, err := firstNamespace(id)
	if err != nil {
		return nil, err
	}
	book, err := journal.Open(host.JournalIn(n.Dir(id)))
	if errors.Is(err, fs.ErrNotExist) {
		book, err = journal.Create(host.JournalIn(n.Dir(id)), h)
	}
	if err != nil {
		ns.Close()
		return nil, err
	}
	book.Header = h
	l := n.enter(ctx, n.Dir(id), book, ns)
	l.lost = why
	return l, nil
}

// abandoned keeps from later jobs what a job holds that has no lease: somebody removed
// it, since a claim is noted in the lease before it is made, and freed before the lease
// goes. It is done once, and a person has to see what became of the HCAs.
func (n *Host) abandoned(ctx context.Context, id uint32) error {
	if err := removeDir(n.Dir(id)); err != nil {
		return remains(err)
	}
	t := n.Readable(id)
	uplinks := n.dropUplinks(ctx, id, t)
	claims := recovery.ClaimsOf(t, id)
	if len(claims) == 0 {
		return uplinks // as far as is known: most jobs never had a lease
	}
	return hint.Join(uplinks, n.dropOverlay(ctx, id), n.distrust(ctx, id, &t, claims))
}

// distrust quarantines claims whose lease is gone, and with it all memory of what the
// interfaces had: that they are home does not say that they are as they were.
func (n *Host) distrust(ctx context.Context, id uint32, t *table.Table, claims []table.Claim) error {
	away := map[node.ID]string{}
	var what []string
	for _, c := range claims {
		away[c.HCA] = n.forgotten(t, c.HCA)
		what = append(what, fmt.Sprintf("%s is quarantined: %s", cmp.Or(c.Name, c.HCA.String()), away[c.HCA]))
	}
	err := n.Table().Update(ctx, func(t *table.Table) error {
		for i, c := range t.Claims {
			if reason, is := away[c.HCA]; is && c.Job == id {
				t.Claims[i].Doubt, t.Claims[i].Quarantined = true, reason
			}
		}
		return nil
	})
	if err != nil {
		return remains(n.StateFault(err))
	}
	n.TellQuarantines(id, away)
	err = fmt.Errorf("%w: job %d: %s", ErrDamaged, id, strings.Join(what, "; "))
	return remains(hint.With(err, "see whether the HCA is as it should be, then run: gresnet-epilog release HCA"))
}

// forgotten says of an HCA whose lease was removed why it is kept from later jobs. Where
// it is, is to be known, but not what it was: that it cannot be looked for changes nothing.
func (n *Host) forgotten(t *table.Table, id node.ID) string {
	const reason = "its lease was removed: nobody remembers what its interfaces had"
	if absent, err := n.absent(t, id); err == nil && absent != "" {
		return reason + "; " + absent
	}
	return reason
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
func (n *Host) foreign(ctx context.Context, id uint32, cause error) error {
	err := n.Table().Update(ctx, func(t *table.Table) error {
		for i, c := range t.Claims {
			if c.Job == id && c.Quarantined == "" {
				t.Claims[i].Quarantined = cause.Error()
			}
		}
		return nil
	})
	if err != nil {
		n.Notice(id, "%s", err)
	}
	err = fmt.Errorf("%w: open the lease of job %d: %w", ErrDamaged, id, cause)
	return hint.With(err, fmt.Sprintf("run gresnet-epilog of the version that wrote it, with SLURM_JOB_ID=%d", id))
}
