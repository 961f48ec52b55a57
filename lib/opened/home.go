package lease

import (
	"errors"

	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/rdma"
	"gresnet/lib/recovery"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/world"
)

// bringHome undoes what was done to what the node has of its own, and then looks at all of it
// again, when others have had their say. While an HCA is not home, none of its steps is done with:
// bringing it home may make its interface anew. whole says that all that was done is noted: the
// notes are then in an order in which one can be under way while others are undone.
func (l *open) bringHome(notes []recovery.Note, whole bool) []error {
	if len(notes) == 0 {
		return nil
	}
	h := homecoming{lease: l, stuck: map[node.ID]bool{}}
	up := recovery.FirstOfRank(notes, step.AllUp)
	for i, s := range notes {
		if i == up {
			h.finish()
		}
		if h.moving != nil && (!whole || h.moving.before(s.Step)) {
			h.await()
		}
		// A move of its RDMA device may be under way still, with which none of its
		// interface may overlap.
		if !h.stuck[s.HCA()] && !l.world.Gone[step.PartOf(s.Step)] {
			h.undo(s.Step)
		}
	}
	h.finish()
	return append(h.failed, l.lookAgain(notes)...)
}

// homecoming is how far an unwinding is with bringing HCAs home.
type homecoming struct {
	lease  *open
	moving *inFlight        // nil: nothing is under way
	stuck  map[node.ID]bool // HCAs that do not come home
	failed []error
}

// undo undoes a step, or has it under way.
func (h *homecoming) undo(s step.Step) {
	moving, err := h.lease.begin(undo, s)
	if moving != nil {
		h.moving = moving
		return
	}
	h.undone(s, err)
}

// await waits for what is under way.
func (h *homecoming) await() {
	if ending := h.moving; ending != nil {
		h.moving = nil
		h.undone(ending.Step, ending.end())
	}
}

// finish does what was left for when all interfaces are up.
func (h *homecoming) finish() {
	h.await()
	for s, err := range h.lease.finish() {
		h.undone(s, err)
	}
}

// undone notes how an undo ended. An HCA whose name another has is home nevertheless, and so is one
// whose settings do not come back: its device nodes are closed all the same.
func (h *homecoming) undone(s world.Deed, err error) {
	errs := h.lease.failure(s, err)
	h.failed = append(h.failed, errs...)
	_, settings := s.(*step.Settings)
	if len(errs) > 0 && !settings && !errors.Is(errs[0], link.ErrNameTaken) && !errors.Is(errs[0], rdma.ErrNameTaken) {
		h.stuck[s.HCA()] = true
	}
}

// lookAgain waits for udev, verifies what is home, and strikes it.
func (l *open) lookAgain(notes []recovery.Note) (failed []error) {
	waited := l.node.Stopwatch()
	if err := l.world.WaitUdev(); err != nil {
		failed = append(failed, err)
	}
	waited.Stop("wait for udev")
	err := l.world.OnHost(func(v *scan.View) error {
		return v.Link.Once(func() error {
			failed = append(failed, l.verify(notes)...)
			return nil
		})
	})
	if err != nil {
		return append(failed, err) // nobody has looked again: nothing is done with
	}
	failed = append(failed, l.deferRestore()...)
	for _, s := range notes {
		if _, away := l.world.Away[s.HCA()]; !away {
			l.markUndone(s)
		}
	}
	return failed
}

// verify looks again at what is home.
func (l *open) verify(notes []recovery.Note) (failed []error) {
	for _, s := range notes {
		if _, away := l.world.Away[s.HCA()]; away || l.world.Gone[step.PartOf(s.Step)] {
			continue
		}
		if v, is := s.Step.(step.Verifier); is {
			failed = append(failed, l.failure(s.Step, l.timed(verify, s.Step, v.Verify))...)
		}
	}
	return failed
}
