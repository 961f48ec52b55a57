package opened

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

// leasedTo returns the HCA of an interface that another lease has, or is about to have, or that the node lost with
// this lease or another one. If a journal does not read, nobody has its interfaces, and they must be on the node.
func leasedTo(n *host.Host, w *world.World, id link.ID, here func() (node.ID, error)) (hca node.ID, leased bool, err error) {
	t := n.Readable(w.Job)
	if hca, lost := lostWith(n, w, &t, id); lost {
		return hca, true, nil
	}
	books := map[uint32]*journal.Journal{}
	for _, other := range t.Jobs() {
		book, err := journal.Read(n.State.Lease(other).Journal())
		if err != nil || n.State.Lease(other) == w.Dir {
			continue
		}
		if hca, noted := hasNoted(&t, other, book, id); noted {
			return hca, true, nil
		}
		books[other] = book
	}
	// No other lease has the interface for certain.
	for _, other := range slices.Sorted(maps.Keys(books)) {
		if hca, may, err := mayNote(n, &t, other, books[other], here); may || err != nil {
			return hca, may, err
		}
	}
	return node.ID{}, false, nil
}

// lostWith returns the HCA of an interface that the node lost with this lease, or with one that was set aside for it
// and whose claim of the HCA is still there.
func lostWith(n *host.Host, w *world.World, t *table.Table, id link.ID) (hca node.ID, lost bool) {
	for piece := range w.Gone {
		if piece.Interface == id {
			return piece.HCA, true
		}
	}
	for _, dir := range lostLeases(n) {
		book, err := journal.Read(dir.Journal())
		if err != nil || dir == w.Dir {
			continue
		}
		for _, had := range step.NotedSettings(book) {
			if c, held := t.Holder(had.Of); had.Interface == id && held && c.Doubt && c.Job == book.Header.Job {
				return had.Of, true
			}
		}
	}
	return node.ID{}, false
}

// ownersOf returns the interfaces of other leases that had some addresses on the node. No route names them by an index.
func ownersOf(n *host.Host, w *world.World, addresses []netip.Addr) (all []world.Owner) {
	if len(addresses) == 0 {
		return nil
	}
	t := n.Readable(w.Job)
	for _, other := range t.Jobs() {
		book, err := journal.Read(n.State.Lease(other).Journal())
		if err != nil || n.State.Lease(other) == w.Dir {
			continue
		}
		for _, had := range step.NotedSettings(book) {
			o := world.Owner{Other: snapshot.Other{Index: -1, ID: had.Interface, Name: had.Settings.Name}, HCA: had.Of}
			for _, m := range had.Settings.Addresses {
				if a := m.Addr().Addr(); slices.Contains(addresses, a) {
					o.Sources = append(o.Sources, a)
				}
			}
			if c, held := t.Holder(had.Of); o.Sources != nil && held && c.Job == other {
				all = append(all, o)
			}
		}
	}
	return all
}

// hasNoted tells whether a job's lease has an interface: it claims the HCA, and its journal says that the interface is the
// HCA's and moves.
func hasNoted(t *table.Table, job uint32, book *journal.Journal, id link.ID) (hca node.ID, noted bool) {
	for _, had := range step.NotedSettings(book) {
		if c, held := t.Holder(had.Of); had.Interface == id && held && c.Job == job {
			return had.Of, true
		}
	}
	return node.ID{}, false
}

// mayNote tells whether a job's prolog may be about to note an interface. It may have read its settings already when it
// has claimed the HCA. So until it has noted all, it has those that are on the HCA on the node, and may have any that is
// on no HCA there.
func mayNote(n *host.Host, t *table.Table, job uint32, book *journal.Journal, here func() (node.ID, error)) (hca node.ID, may bool, err error) {
	moves := func(n journal.Note) bool {
		return slices.Contains([]string{"rdma", "link", "devices"}, n.Kind)
	}
	_, notYet := os.Lstat(n.State.Lease(job).Env())
	if notYet == nil || slices.ContainsFunc(book.Notes, moves) {
		return node.ID{}, false, nil
	}
	for _, c := range t.Claims {
		if c.Job != job || c.Quarantined != "" || c.HCA.IsSlot() {
			continue
		}
		if at, err := here(); err != nil || at == c.HCA || at == (node.ID{}) {
			return c.HCA, err == nil, err
		}
	}
	return node.ID{}, false, nil
}

// deferRestore writes into the node table which settings the interfaces at home cannot have yet. It
// does so before anything strikes their steps and frees the HCAs, so that no kill loses them.
func (l *Lease) deferRestore() (failed []error) {
	var list []table.Deferred
	for _, o := range l.World.Deferred {
		if _, away := l.World.Away[o.Of[0].HCA]; !away && !l.World.Gone[world.Piece{HCA: o.Of[0].HCA, Interface: o.Of[0].Interface}] {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b table.Deferred) int { return strings.Compare(a.Of[0].Name, b.Of[0].Name) })
	noted := l.Host.Time("write into the node table what is owed")
	err := l.World.Table.Update(l.World.Context, func(t *table.Table) error { t.Defer(list); return nil })
	noted()
	for _, o := range list {
		if err != nil {
			err := fmt.Errorf("note what %s: %w", sharing(o), err)
			l.World.Away[o.Of[0].HCA] = err.Error()
			failed = append(failed, err)
			continue
		}
		l.Host.Log(event.Event{Kind: event.Remark, Job: l.World.Job, HCA: o.Of[0].HCA.String(), Notice: "owed, until all are home: what " + sharing(o)})
	}
	return failed
}

// sharing names the interfaces that share settings, and these settings.
func sharing(o table.Deferred) string {
	return fmt.Sprintf("%s shares with %s: %s", o.Of[0].Name, strings.Join(o.Sharers(), ", "), event.FirstOf(o.Shared.What()))
}

// restoreDeferred restores the deferred settings whose members are all home and in no lease. It
// fails no job's epilog: settings that it cannot restore stay deferred.
func restoreDeferred(n *host.Host, w *world.World) {
	t := n.Readable(w.Job)
	// The interface that left first has all that was shared, those that left later what was left of it: it comes last.
	slices.SortStableFunc(t.Deferred, func(a, b table.Deferred) int { return cmp.Compare(b.Shared.Taken, a.Shared.Taken) })
	for _, o := range t.Deferred {
		if _, claimed := t.Claimed(o); !claimed {
			restoreEntry(n, w, o)
		}
	}
}

// restoreEntry restores one entry whose members are all home, or gives it up since the node has lost a member.
func restoreEntry(n *host.Host, w *world.World, o table.Deferred) {
	warn := func(format string, a ...any) {
		n.Log(event.Event{Kind: event.Remark, Job: w.Job, HCA: o.Of[0].HCA.String(), Warning: fmt.Sprintf(format, a...)})
	}
	looked := n.Time("give what is owed")
	defer looked()
	away, err := memberAway(w, o)
	if err == nil && away != nil {
		if err = awaitLost(w, *away); err == nil {
			return
		}
	}
	gone := errors.Is(err, world.ErrGone)
	if gone {
		warn("given up, since %s: what %s", err, sharing(o))
		err = nil
	}
	var ended bool
	if err == nil {
		ended, err = endEntry(w, o, gone)
	}
	if err != nil {
		warn("still owed, since %s: what %s", err, sharing(o))
	} else if ended && !gone {
		n.Notice(w.Job, "restored at last what %s", sharing(o))
	}
}

// memberAway returns a member that is not on the node, nil if all are.
func memberAway(w *world.World, o table.Deferred) (away *table.Member, err error) {
	err = w.OnHost(func(v *scan.View) error {
		for i := range o.Of {
			_, err := v.Interface(o.Of[i].Interface)
			if errors.Is(err, link.ErrNotFound) {
				away = &o.Of[i]
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return away, err
}

// awaitLost waits for a member that is away. If the node has lost it, the error is ErrGone and names it.
func awaitLost(w *world.World, p table.Member) error {
	if p.HCA == (node.ID{}) {
		return nil // nobody can tell
	}
	if err := w.AwaitLost(p.HCA); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// endEntry restores an entry and drops it; if a member is gone, it only drops it. It does so under the node lock: nobody
// claims a member then and takes away what was restored, and no other run restores or drops entries. It leaves an entry
// that another run has dropped, and one with a member that a job has claimed meanwhile: that prolog may have read the
// settings before.
func endEntry(w *world.World, o table.Deferred, gone bool) (ended bool, err error) {
	err = w.Table.Update(w.Context, func(t *table.Table) error {
		if _, claimed := t.Claimed(o); !t.Owes(o) || claimed && !gone {
			return nil
		}
		if !gone {
			if away, err := memberAway(w, o); away != nil || err != nil {
				return err
			}
			if err := w.OnHost(func(v *scan.View) error { return v.Link.RestoreShared(o.Shared) }); err != nil {
				return err
			}
		}
		t.Drop(o)
		ended = true
		return nil
	})
	return ended, err
}

// RestoreDeferred restores what is deferred, for a run that has no lease open.
func RestoreDeferred(ctx context.Context, n *host.Host, job uint32) {
	if len(n.Readable(job).Deferred) == 0 {
		return
	}
	l, done, err := n.LookFor(ctx, job)
	if err != nil {
		n.Notice(job, "%s", err)
		return
	}
	defer done()
	restoreDeferred(n, l.World)
}
