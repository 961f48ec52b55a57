package link

import (
	"context"
	"time"
)

const (
	// carrierTimeout is the time that an interface which had a carrier has to get
	// it again, from when it is brought up: a port trains its link anew after some
	// moves, one of 400G for five seconds and more. One whose cable was pulled
	// meanwhile gets its settings without it.
	carrierTimeout = 15 * time.Second
	// lostTimeout bounds what one run waits for carriers that do not come.
	lostTimeout = carrierTimeout + 5*time.Second
	// renameTimeout bounds the wait for a name that another interface has for a moment.
	renameTimeout = 2 * time.Second
	// newTimeout bounds that for an interface that mayBeNew: two epilogs at once may find
	// theirs made anew under each other's names, and rename them as soon as a busy node
	// lets them. It bounds also what one run waits for names in vain.
	newTimeout = 20 * time.Second
)

// Waits is how long one run waits for carriers and names, of however many interfaces.
// Interfaces are brought up before the first is waited for, so their links train at
// once, and the time of each counts from when it was brought up: a switch that is off
// takes the carriers of all ports, and costs a run carrierTimeout once. lostTimeout
// bounds it where interfaces are brought up one after the other: what stands on others.
//
// Names that others have are waited for newTimeout in vain, for all together.
//
// Neither is waited in vain for more than half of the time that the run has, since what
// comes after it needs some, too.
//
// Without one (nil) each interface has its time, and nothing bounds the sum.
type Waits struct {
	// Context ends all waits; nil: only time does.
	Context context.Context

	lost  time.Duration    // waited in vain for carriers
	late  map[ID]time.Time // what has no carrier yet, and until when it is to be waited for
	names time.Duration    // waited in vain for names
}

// Late tells an interface that had a carrier and was not seen with one yet.
func (w *Waits) Late(id ID) bool {
	if w == nil {
		return false
	}
	_, late := w.late[id]
	return late
}

// AnyLate tells whether there is any such interface.
func (w *Waits) AnyLate() bool { return w != nil && len(w.late) > 0 }

// Lacks takes down that an interface has no carrier: its time begins, unless it has already.
func (w *Waits) Lacks(id ID, now time.Time) {
	if w == nil {
		return
	}
	if w.late == nil {
		w.late = map[ID]time.Time{}
	}
	if _, known := w.late[id]; !known {
		w.late[id] = now.Add(carrierTimeout)
	}
}

// until is the end of a wait for an interface that began at a time.
func (w *Waits) until(id ID, begun time.Time) time.Time {
	if w == nil {
		return begun.Add(carrierTimeout)
	}
	w.Lacks(id, begun)
	if last := begun.Add(w.left(lostTimeout, w.lost, begun)); last.Before(w.late[id]) {
		return last
	}
	return w.late[id]
}

// Waited takes down how a wait ended.
func (w *Waits) Waited(id ID, came bool, took time.Duration) {
	switch {
	case w == nil:
	case came:
		delete(w.late, id)
	default:
		w.lost += took
	}
}

// raised tells of an interface that was just brought up: its time begins anew.
func (w *Waits) raised(id ID) {
	if w != nil {
		delete(w.late, id)
	}
}

// name is the end of a wait for a name that began, and may take a time.
func (w *Waits) name(begun time.Time, timeout time.Duration) time.Time {
	if w != nil {
		timeout = min(timeout, w.left(newTimeout, w.names, begun))
	}
	return begun.Add(timeout)
}

// left is what may be waited in vain from now on, if so much may be in sum and some was.
func (w *Waits) left(most, waited time.Duration, now time.Time) time.Duration {
	if w.Context != nil {
		if end, bounded := w.Context.Deadline(); bounded {
			most = min(most, (end.Sub(now)+waited)/2)
		}
	}
	return max(0, most-waited)
}

// nameless takes down that a name was not to be had.
func (w *Waits) nameless(took time.Duration) {
	if w != nil {
		w.names += took
	}
}

// Over tells whether a wait has ended.
func (w *Waits) Over(end time.Time) bool {
	return time.Now().After(end) || w != nil && w.Context != nil && w.Context.Err() != nil
}
