package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/udev"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
)

// Entry is a step with its number in the journal; 0 if the journal does not have it.
type Entry struct {
	step.Step
	Number int
	Undone bool
}

// Rollback undoes all entries of the journal that are not marked undone, in the order of the kinds of steps,
// and removes the lease. If it cannot undo a step, it keeps the HCA from later jobs, and keeps the
// namespace and the journal; it returns the other HCAs all the same.
func (l *Lease) Rollback() error {
	// A prolog that ran out of time still has to undo what it did.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.World.Context), l.UndoTime())
	defer cancel()
	l.World.Context = ctx
	l.again = !l.unused && !l.World.Dir.Counts()
	if err := l.World.Dir.End(); err != nil {
		return remains(err)
	}
	defer l.watchUdev()()
	entries, damaged := l.left()
	l.startOver()
	failed := l.undoAll(entries, damaged)
	l.Host.TellQuarantines(l.World.Job, l.World.Away)
	if len(failed) > 0 {
		return remaining(failed)
	}
	if damaged != nil {
		if err := l.setAside(damaged); err != nil {
			return err
		}
		return l.lostAny()
	}
	if len(l.World.Gone) > 0 {
		return l.keepLost()
	}
	if err := l.World.Dir.Remove(); err != nil {
		return remains(err)
	}
	l.Host.Tell(event.LeaseReturned, l.World.Job, "the lease is returned")
	logUsers(l.Host, l.World.Job, hcasOf(entries))
	return nil
}

// startOver forgets what an earlier rollback found out, and for what a prolog that fails has waited.
func (l *Lease) startOver() {
	l.World.Managers, l.World.Budget = world.Managers{Run: l.Host.Run}, poll.Budget{Context: l.World.Context}
	l.World.Rest, l.lost, l.unmarked, l.World.UplinkLeft = nil, nil, nil, false
	l.World.Away, l.World.Gone = map[node.ID]string{}, map[world.Piece]bool{}
}

// undoAll removes what was made for the job, returns the node's own parts, and then removes the
// lease's device nodes and namespace. Last it frees the claims: until then the HCAs are the job's.
func (l *Lease) undoAll(entries []Entry, damaged *damage) []error {
	returnFrom, placesFrom, claimsFrom := firstOfRank(entries, step.ReturnBegins), firstOfRank(entries, step.AllReturned), firstOfRank(entries, step.Rank(new(step.Claim)))

	if err := step.RestrictNodes(l.World); err != nil {
		return []error{err}
	}
	traffic := l.beginTraffic(entries)
	failed := l.remove(entries[:returnFrom])
	l.carried = traffic.End()

	failed = append(failed, l.returnParts(entries[returnFrom:placesFrom])...)
	if damaged != nil || l.passed {
		failed = append(failed, l.returnStrays()...)
	}
	if damaged != nil {
		l.doubt(damaged)
	}
	l.quarantineLost()

	if len(failed) == 0 { // else something that is not back may be in there
		failed = l.removePlaces(entries[placesFrom:claimsFrom])
	}
	all := len(failed) == 0 && damaged == nil && len(l.World.Gone) == 0
	return append(failed, l.free(entries[claimsFrom:], all)...)
}

// removePlaces removes the lease's device nodes and namespace, up to the first that stays.
func (l *Lease) removePlaces(entries []Entry) []error {
	for _, s := range entries {
		if failed := l.undo(s); len(failed) > 0 {
			return failed
		}
		l.markUndone(s)
	}
	return nil
}

// free frees claims. It keeps HCAs that, by the journal, are not back. all says that everything is undone.
func (l *Lease) free(claims []Entry, all bool) (failed []error) {
	for _, s := range claims {
		if all && len(failed) == 0 {
			l.shorten(s)
		}
		failed = append(failed, l.quarantineUnmarked()...)
		failed = append(failed, l.undo(s)...)
	}
	return failed
}

// lostAny returns an error that names the pieces of HCAs that the node lost, if it lost any.
func (l *Lease) lostAny() error {
	if len(l.lost) == 0 {
		return nil
	}
	err := fmt.Errorf("%w: the node does not have %s any more", ErrLost, strings.Join(l.lost, ", "))
	return remains(hint.With(err, "GN451 see in the kernel's log why the driver let go of it; when it is back, the next prolog, epilog or cleanup gives it its settings, and until then no job has it"))
}

// remove undoes the steps that made something for the job. Nothing of that is the node's own.
func (l *Lease) remove(entries []Entry) (failed []error) {
	for _, s := range entries {
		errs := l.undo(s)
		if len(errs) == 0 {
			l.markUndone(s)
		}
		if _, is := s.Step.(*network.Uplink); is {
			l.World.UplinkLeft = len(errs) > 0
		}
		failed = append(failed, errs...)
	}
	return failed
}

func (l *Lease) undo(s Entry) []error {
	return l.failure(s.Step, l.timed(undo, s.Step, func() error { return s.Undo(l.World) }))
}

// markUndone marks an entry of the journal: its step need never be undone again. If /run is full
// and it cannot, the next rollback, if there is one, looks again.
func (l *Lease) markUndone(s Entry) {
	if s.Undone || s.Number == 0 {
		return
	}
	if err := l.write(func() error { return l.Journal.MarkUndone(s.Number) }); err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
		if l.unmarked == nil {
			l.unmarked = map[node.ID]error{}
		}
		l.unmarked[s.HCA()] = err
	}
}

// quarantineUnmarked keeps from later jobs the HCAs that are back although the journal still gives
// them to this lease. If they were free, another job could claim them, and the next rollback would
// look for them everywhere and take them from that job.
func (l *Lease) quarantineUnmarked() (failed []error) {
	for id, err := range l.unmarked {
		if _, away := l.World.Away[id]; away || id == (node.ID{}) {
			continue
		}
		err = fmt.Errorf("free HCA %s: the journal still says that the job has it: %w", id, err)
		l.World.Away[id] = err.Error()
		failed = append(failed, hint.With(err, "GN219 make room in /run, and run gresnet cleanup"))
	}
	return failed
}

// shorten cuts the journal back to the claim, when nothing else of the lease is left: no undone mark
// that a full /run lost matters any more.
func (l *Lease) shorten(claim Entry) {
	if err := l.Journal.Shorten(claim.Number); err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
		return
	}
	l.unmarked = nil
}

// failure keeps the HCA of a step that failed from later jobs, or records that the node lost it.
func (l *Lease) failure(s world.Action, err error) []error {
	if err == nil {
		return nil
	}
	if leave := (step.LeaveError{}); errors.As(err, &leave) {
		l.Host.Log(event.Event{Kind: event.Remark, Job: l.World.Job, Warning: err.Error(), ID: hint.ID(err)})
		if leave.Fault == config.FaultNode {
			l.Complaint = err
		}
		return nil
	}
	if errors.Is(err, world.ErrGone) {
		piece := pieceOf(s)
		l.World.Gone[piece] = true
		warning, what := err.Error(), "RDMA device "+s.Object()
		if piece.Interface != (link.ID{}) {
			what = s.Object() + " with its settings"
		}
		l.lost = append(l.lost, what)
		l.Host.Log(event.Event{Kind: event.Remark, Job: l.World.Job, HCA: s.HCA().String(), Warning: warning})
		return nil
	}
	if _, known := l.World.Away[s.HCA()]; !known && s.HCA() != (node.ID{}) {
		l.World.Away[s.HCA()] = err.Error()
	}
	return []error{err}
}

// left returns the entries that are not marked undone, in the order in which the rollback undoes them. If
// the journal is damaged, it adds steps whose undo needs no entry.
func (l *Lease) left() ([]Entry, *damage) {
	all, why := decode(l.Journal)
	others := l.peers(all)
	d := l.damaged(all, why, others)
	l.passed = slices.ContainsFunc(all, func(s Entry) bool { return !s.Undone && others[s.HCA()] })
	entries := slices.DeleteFunc(slices.Clone(all), func(s Entry) bool { return s.Undone || others[s.HCA()] })
	if d != nil {
		entries = slices.Concat(l.unlisted(d, all), entries, unmoved(entries, all))
	}
	sortForUndo(entries)
	return entries, d
}

// decode returns the entries of a journal as steps, and why some of them do not read.
func decode(undoLog *journal.Journal) (all []Entry, why []string) {
	for _, g := range undoLog.Gaps {
		why = append(why, g.Why)
	}
	for _, n := range undoLog.Entries {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			why = append(why, fmt.Sprintf("entry %d: %v", n.Number, err))
			continue
		}
		all = append(all, Entry{s, n.Number, n.Undone})
	}
	return all, why
}

// sortForUndo sorts entries by kind, and within a kind as they were done: so the kernel has all that
// it keeps in the order of arrival (interfaces, routes to one destination) in the old order again.
// Moves of RDMA devices and of interfaces keep the order in which they were done, see step.Plan.
func sortForUndo(entries []Entry) {
	rank := func(s Entry) int {
		r := step.Rank(s.Step)
		if r >= step.ReturnBegins && r < step.Moved {
			return step.ReturnBegins
		}
		return r
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return rank(a) - rank(b) })
}

// firstOfRank returns where in a rollback's order a rank begins.
func firstOfRank(entries []Entry, rank int) int {
	first := slices.IndexFunc(entries, func(s Entry) bool { return step.Rank(s.Step) >= rank })
	if first < 0 {
		return len(entries)
	}
	return first
}

// hcasOf returns the HCAs that entries are about, each once.
func hcasOf(entries []Entry) (ids []node.ID) {
	for _, s := range entries {
		if id := s.HCA(); id != (node.ID{}) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stepsOf returns the steps of entries.
func stepsOf(all []Entry) (list []step.Step) {
	for _, s := range all {
		list = append(list, s.Step)
	}
	return list
}

// watchUdev begins to hear udev's events. If it cannot, the rollback waits until udev has nothing
// at all to do.
func (l *Lease) watchUdev() (end func()) {
	watch, err := udev.Open("/run")
	if err != nil {
		l.World.Notice("%s", err)
		return func() {}
	}
	l.World.Udev = watch
	return func() {
		l.World.Udev = nil
		watch.Close()
	}
}

// logUsers logs which HCAs of a lease that has ended later jobs do not get yet, because a process uses them.
func logUsers(n *host.Host, job uint32, hcas []node.ID) {
	u, err := n.Users()
	if err != nil {
		n.Notice(job, "%s", err)
		return
	}
	defer u.Close()
	t, err := n.Table().Read()
	if err != nil {
		n.Notice(job, "%s", err)
		return
	}
	used := map[node.ID]string{}
	free := t.Unclaimed(slices.Clone(hcas))
	for _, id := range hcas {
		if !slices.Contains(free, id) {
			continue // another job has it by now
		}
		if by := u.Of(id); by != "" {
			used[id] = gres.Holder{User: by}.String()
		}
	}
	if u.Err != nil {
		n.Notice(job, "%s", u.Err)
	}
	n.TellQuarantines(job, used)
}

// Failed rolls back a lease that could not be completed.
func (l *Lease) Failed(cause error) error {
	l.unused = true
	if err := l.Rollback(); err != nil {
		return fmt.Errorf("%w; then %w", cause, err)
	}
	return cause
}
