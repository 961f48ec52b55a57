package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gresnet/lib/event"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/lib/udev"
	"gresnet/lib/world"
)

// unwind undoes all that the journal has and that is not struck, in the order
// of the kinds of steps, and removes the lease. A step that cannot be undone
// keeps the HCA from later jobs, the namespace and the journal, and does not
// keep other HCAs from being brought home.
func (l *open) unwind() error {
	// A prolog that ran out of time still has to undo what it did.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.world.Context), l.undoTime())
	defer cancel()
	l.world.Context = ctx
	// Whatever it is that has its name.
	if err := os.RemoveAll(host.EnvIn(l.world.Dir)); err != nil {
		return remains(err)
	}
	if err := l.world.RestoreDefaultQdisc(); err != nil {
		l.node.Notice(l.world.Job, "%s", err)
	}
	defer l.watchUdev()()
	notes, damage := l.left()
	l.startOver()
	failed := l.undoAll(notes, damage)
	l.node.restoreDeferred(l.world)
	l.node.TellQuarantines(l.world.Job, l.world.Away)
	if len(failed) > 0 {
		return remains(hint.Join(failed...))
	}
	if damage != nil {
		if err := l.setAside(damage); err != nil {
			return err
		}
		return l.lostAny()
	}
	if err := removeDir(l.world.Dir); err != nil {
		return remains(err)
	}
	l.node.Tell(event.LeaseReturned, l.world.Job, "the lease is given back")
	l.node.tellUsers(l.world.Job, recovery.HCAsOf(notes))
	return l.lostAny()
}

// startOver forgets what an earlier unwinding found out, and what a prolog that fails has waited
// for.
func (l *open) startOver() {
	l.world.Managers, l.world.Waits = world.Managers{Run: l.node.Run}, link.Waits{Context: l.world.Context}
	l.world.Rest, l.lostParts, l.unstruck, l.world.UplinkLeft = nil, nil, nil, false
	l.world.Away, l.world.Gone, l.world.Deferred = map[node.ID]string{}, map[world.Part]bool{}, map[link.ID]table.Owed{}
}

// undoAll removes what was made for the job, brings home what is the node's, and then removes the
// lease's own things and its claims.
func (l *open) undoAll(notes []recovery.Note, damage *recovery.Damage) []error {
	made, first := recovery.FirstOfRank(notes, step.HomeBegins), recovery.FirstOfRank(notes, step.AllHome)
	failed := l.remove(notes[:made])
	failed = append(failed, l.bringHome(notes[made:first], damage == nil)...)
	if damage != nil || l.passed {
		failed = append(failed, l.strays()...)
	}
	if damage != nil {
		l.doubt(damage)
	}
	for _, s := range notes[first:] {
		_, claim := s.Step.(*step.Claim)
		if len(failed) > 0 && !claim {
			continue // what is not home may be in there
		}
		if claim && len(failed) == 0 && damage == nil {
			l.shorten(s)
		}
		if claim {
			failed = append(failed, l.keepUnstruck()...)
		}
		failed = append(failed, l.undo(s)...)
		if len(failed) == 0 {
			l.markUndone(s)
		}
	}
	return failed
}

// ErrLost means that a driver let go of something while a job had it: the lease has ended, and
// the node has less than before.
var ErrLost = errors.New("lost during the job")

// lostAny is an error that says what the node lost, if it lost anything.
func (l *open) lostAny() error {
	if len(l.lostParts) == 0 {
		return nil
	}
	err := fmt.Errorf("%w: the node does not have %s any more", ErrLost, strings.Join(l.lostParts, ", "))
	return remains(hint.With(err, "see in the kernel's log why the driver let go of it; nothing is left of the lease"))
}

// remove undoes what was made for the job and is none of the node's own.
func (l *open) remove(notes []recovery.Note) (failed []error) {
	for _, s := range notes {
		errs := l.undo(s)
		if len(errs) == 0 {
			l.markUndone(s)
		}
		if _, is := s.Step.(*step.Uplink); is {
			l.world.UplinkLeft = len(errs) > 0
		}
		failed = append(failed, errs...)
	}
	return failed
}

func (l *open) undo(s recovery.Note) []error {
	return l.failure(s.Step, l.timed(undo, s.Step, s.Undo))
}

// markUndone says in the journal that a step needs never be undone again. Where that
// cannot be written (a full /run) the next unwinding, if there is one, looks again.
func (l *open) markUndone(s recovery.Note) {
	if s.Struck || s.Number == 0 {
		return
	}
	if err := l.write(func() error { return l.journal.Strike(s.Number) }); err != nil {
		l.node.Notice(l.world.Job, "%s", err)
		if l.unstruck == nil {
			l.unstruck = map[node.ID]error{}
		}
		l.unstruck[s.HCA()] = err
	}
}

// keepUnstruck keeps from later jobs the HCAs that are home and that the journal still gives to
// this lease. Free ones could be claimed and moved while the next unwinding looks for them
// everywhere, and it would take them from who has them by then.
func (l *open) keepUnstruck() (failed []error) {
	for id, err := range l.unstruck {
		if _, away := l.world.Away[id]; away || id == (node.ID{}) {
			continue
		}
		err = fmt.Errorf("free HCA %s: the journal still says that the job has it: %w", id, err)
		l.world.Away[id] = err.Error()
		failed = append(failed, hint.With(err, "make room in /run, and run gresnet-epilog sweep"))
	}
	return failed
}

// shorten makes room for the node table on a full /run, when all that is left
// of a lease is its claim.
func (l *open) shorten(claim recovery.Note) {
	if err := l.journal.Shorten(claim.Number); err != nil {
		l.node.Notice(l.world.Job, "%s", err)
		return
	}
	l.unstruck = nil
}

// failure keeps the HCA of a step that failed from later jobs.
func (l *open) failure(s world.Deed, err error) []error {
	if err == nil {
		return nil
	}
	if errors.Is(err, world.ErrGone) {
		part := step.PartOf(s)
		l.world.Gone[part] = true
		warning, what := err.Error(), "RDMA device "+s.Object()
		if part.Interface != (link.ID{}) {
			warning += "; if it comes back, it lacks what it was given"
			what = s.Object() + " with its settings"
		}
		l.lostParts = append(l.lostParts, what)
		l.node.Log(event.Event{Kind: event.Remark, Job: l.world.Job, HCA: s.HCA().String(), Warning: warning})
		return nil
	}
	if _, known := l.world.Away[s.HCA()]; !known && s.HCA() != (node.ID{}) {
		l.world.Away[s.HCA()] = err.Error()
	}
	return []error{err}
}

// peers are the HCAs that another lease has by now, by the node table. This one brought
// them home and freed them, also where it does not say so: a strike that could not be
// written, or does not read, must not take them from who has them. What is in the job's
// namespace still, the other lease does not have, whatever the table says.
func (l *open) peers(all []recovery.Note) map[node.ID]bool {
	t, err := l.world.Table.Read()
	if err != nil {
		l.node.Notice(l.world.Job, "%s", err)
	}
	others := map[node.ID]bool{}
	for _, c := range t.Claims {
		if c.Job != l.world.Job || c.Run != l.world.Run {
			others[c.HCA] = true
		}
	}
	if !slices.ContainsFunc(all, func(s recovery.Note) bool { return others[s.HCA()] }) {
		return others
	}
	here, err := step.Inside(l.world, recovery.StepsOf(all))
	if err != nil {
		l.node.Notice(l.world.Job, "list what is in the job's namespace: %s", err)
	}
	for _, id := range here {
		delete(others, id)
	}
	return others
}

// left is what is not struck, in the order in which it is to be undone. With a
// damaged journal it is also what may have been noted.
func (l *open) left() ([]recovery.Note, *recovery.Damage) {
	all, gaps := recovery.Decode(l.journal, l.lost)
	others := l.peers(all)
	damage := l.damaged(all, gaps, others)
	l.passed = slices.ContainsFunc(all, func(s recovery.Note) bool { return !s.Struck && others[s.HCA()] })
	notes := slices.DeleteFunc(slices.Clone(all), func(s recovery.Note) bool { return s.Struck || others[s.HCA()] })
	if damage != nil {
		notes = append(notes, damage.Added()...)
	}
	recovery.SortForUndo(notes, damage == nil)
	return notes, damage
}

// watchUdev begins to hear udev's events. Without it udev is waited for until it has
// nothing at all to do.
func (l *open) watchUdev() (end func()) {
	watch, err := udev.Open("/run")
	if err != nil {
		l.world.Notice("%s", err)
		return func() {}
	}
	l.world.Udev = watch
	return func() {
		l.world.Udev = nil
		watch.Close()
	}
}
