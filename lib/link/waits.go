package link

import (
	"context"
	"time"
)

const (
	// carrierTimeout is the time that an interface which had a carrier has to get
	// it again, from when it is brought up: a port trains its link anew after some
	// moves. One whose cable was pulled meanwhile gets its settings without it.
	carrierTimeout = 5 * time.Second
	// lostTimeout bounds what one run waits for carriers that do not come.
	lostTimeout = 2 * carrierTimeout
	// renameTimeout bounds the wait for a name that another interface has for a moment.
	renameTimeout = 2 * time.Second
	// newTimeout bounds that for an interface that mayBeNew: two epilogs at once may find
	// theirs made anew under each other's names, and rename them as soon as a busy node
	// lets them. It bounds also what one run waits for names in vain.
	newTimeout = 20 * time.Second
)

// Waits is how long one run waits for carriers and names, of however many interfaces.
// What is waited for one that comes is free: a healthy port needs its time. What
// is waited in vain is not, since a switch that is off takes the carriers of all
// ports, and Slurm waits for the epilog. When lostTimeout is used up, interfaces
// are brought up and get their settings one right after the other, without
// a wait, and so the times that they have run at once: AwaitLate waits for what is
// left of them, carrierTimeout for all together. Both in sum are the most that a
// run waits in vain.
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

// until is the end of a wait for an interface that begins now.
func (w *Waits) until(id ID, now time.Time) time.Time {
	if w == nil {
		return now.Add(carrierTimeout)
	}
	most := lostTimeout
	end, again := w.late[id]
	if again {
		most += carrierTimeout
	} else {
		if w.late == nil {
			w.late = map[ID]time.Time{}
		}
		end = now.Add(carrierTimeout)
		w.late[id] = end
	}
	if last := now.Add(w.left(most, w.lost, now)); last.Before(end) {
		return last
	}
	return end
}

// waited takes down how a wait ended.
func (w *Waits) waited(id ID, came bool, took time.Duration) {
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

// over tells whether a wait has ended.
func (w *Waits) over(end time.Time) bool {
	return time.Now().After(end) || w != nil && w.Context != nil && w.Context.Err() != nil
}
