package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// leasedTo tells whose an interface is that another job than the one has: a claim holds the
// HCA, and the lease's journal says that the interface is the HCA's and is to be moved.
// Where that does not read it is nobody's, and must be there.
func (n *Host) leasedTo(job uint32, id link.ID) (hca node.ID, leased bool) {
	t := n.Readable(job)
	for _, other := range t.Jobs() {
		if other == job {
			continue
		}
		book, err := journal.Read(host.JournalIn(n.Dir(other)))
		if err != nil {
			continue
		}
		for _, note := range book.Notes {
			s, err := step.Decode(note.Kind, note.Data)
			had, is := s.(*step.Settings)
			if err != nil || !is || had.Interface != id {
				continue
			}
			if c, held := t.Holder(had.Of); held && c.Job == other {
				return had.Of, true
			}
		}
	}
	return node.ID{}, false
}

// deferRestore writes into the node table what interfaces cannot have yet that are home else. That
// is before their steps are struck and the HCAs are free, so that no kill loses it.
func (l *open) deferRestore() (failed []error) {
	var list []table.Owed
	for _, o := range l.world.Deferred {
		if _, away := l.world.Away[o.Of[0].HCA]; !away && !l.world.Gone[world.Part{HCA: o.Of[0].HCA, Interface: o.Of[0].Interface}] {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b table.Owed) int { return strings.Compare(a.Of[0].Name, b.Of[0].Name) })
	noted := l.node.Stopwatch()
	err := l.world.Table.Update(l.world.Context, func(t *table.Table) error { t.Defer(list); return nil })
	noted.Stop("write into the node table what is owed")
	for _, o := range list {
		if err != nil {
			err := fmt.Errorf("note what %s: %w", sharing(o), err)
			l.world.Away[o.Of[0].HCA] = err.Error()
			failed = append(failed, err)
			continue
		}
		l.node.Log(event.Event{Kind: event.Remark, Job: l.world.Job, HCA: o.Of[0].HCA.String(), Notice: "owed, until all are home: what " + sharing(o)})
	}
	return failed
}

// sharing names the interfaces that share something, and what they share.
func sharing(o table.Owed) string {
	return fmt.Sprintf("%s shares with %s: %s", o.Of[0].Name, strings.Join(o.Sharers(), ", "), host.FirstOf(o.Shared.What()))
}

// restoreDeferred restores what is owed whose members are all home and in no lease. It fails no
// job's epilog: what cannot be restored stays owed.
func (n *Host) restoreDeferred(w *world.World) {
	t := n.Readable(w.Job)
	for _, o := range t.Owed {
		if _, claimed := t.Claimed(o); !claimed {
			n.restoreOwed(w, o)
		}
	}
}

// restoreOwed restores one entry, and drops it from the node table; also if the node has lost a
// member.
func (n *Host) restoreOwed(w *world.World, o table.Owed) {
	warn := func(format string, a ...any) {
		n.Log(event.Event{Kind: event.Remark, Job: w.Job, HCA: o.Of[0].HCA.String(), Warning: fmt.Sprintf(format, a...)})
	}
	looked := n.Stopwatch()
	done, err := step.RestoreDeferred(w, o)
	looked.Stop("give what is owed")
	gone := errors.Is(err, world.ErrGone)
	switch {
	case gone:
		warn("given up, since %s: what %s", err, sharing(o))
	case err != nil:
		warn("still owed, since %s: what %s", err, sharing(o))
		return
	case !done:
		return
	}
	dropped, err := dropOwed(w, o, gone)
	if err != nil {
		warn("%s", err)
		return
	}
	if dropped && !gone {
		n.Notice(w.Job, "restored at last what %s", sharing(o))
	}
}

// dropOwed drops an entry that is restored, unless a member was claimed meanwhile: that prolog may
// have read the settings before. One that is gone is dropped in any case.
func dropOwed(w *world.World, o table.Owed, gone bool) (dropped bool, err error) {
	err = w.Table.Update(w.Context, func(t *table.Table) error {
		if _, claimed := t.Claimed(o); gone || !claimed {
			t.Drop(o)
			dropped = true
		}
		return nil
	})
	return dropped, err
}

// restoreDeferredFor is the same for whoever has no lease open.
func (n *Host) restoreDeferredFor(ctx context.Context, job uint32) {
	if len(n.Readable(job).Owed) == 0 {
		return
	}
	l, done, err := n.LookFor(ctx, job)
	if err != nil {
		n.Notice(job, "%s", err)
		return
	}
	defer done()
	n.restoreDeferred(l.World)
}
