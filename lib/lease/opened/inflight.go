package opened

import (
	"context"
	"fmt"
	"iter"

	"gresnet/lib/hca/world"
	"gresnet/lib/lease/step"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
)

// CarryOut notes and does the steps of a plan, and then what they left to do.
func (l *Lease) CarryOut(ctx context.Context, steps []step.Step) (err error) {
	var moving *inFlight
	end := func() error {
		if ending := moving; ending != nil {
			moving = nil
			return ending.end()
		}
		return nil
	}
	defer func() { err = hint.Join(err, end()) }()
	for _, s := range steps {
		if moving != nil && moving.before(s) {
			if err := end(); err != nil {
				return err
			}
		}
		if err := l.inTime(ctx); err != nil {
			return err
		}
		if err := l.Note(s); err != nil {
			return err
		}
		u, err := l.begin(do, s)
		if err != nil {
			return err
		}
		if u != nil {
			moving = u
		}
	}
	if err := end(); err != nil {
		return err
	}
	for _, err := range l.finish() {
		if err != nil {
			return err
		}
		if err := l.inTime(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) inTime(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("set up job %d: %w", l.World.Job, err)
	}
	return nil
}

// finish does what steps left to do when all interfaces are up, and yields how each ended.
func (l *Lease) finish() iter.Seq2[world.Deed, error] {
	return func(yield func(world.Deed, error) bool) {
		for len(l.World.Rest) > 0 {
			r := l.World.Rest[0]
			l.World.Rest = l.World.Rest[1:]
			if !yield(r.Deed, l.timed(finish, r.Deed, r.Do)) {
				return
			}
		}
	}
}

// inFlight is a step that the kernel works at while the run does others. There is one at most: a
// move of an RDMA device assigns the numbers of its character devices anew, and only with one move
// at a time does each get its own again.
type inFlight struct {
	step.Step
	lease *Lease
	verb  string
	begun measured
	wait  func() error
}

// The verbs that a step has.
const (
	do     = "do"
	finish = "finish" // what it, or its undo, left to do when all interfaces are up
	undo   = "undo"
	verify = "verify"
)

// begin does or undoes a step, or returns it in flight if the kernel can work at it by itself.
func (l *Lease) begin(verb string, s step.Step) (*inFlight, error) {
	u := &inFlight{Step: s, lease: l, verb: verb}
	u.begun = l.measure(func() (err error) {
		u.wait, err = l.start(verb, s)
		return err
	})
	if u.wait != nil {
		return u, nil
	}
	return nil, l.report(verb, s, u.begun)
}

// start returns a function that waits for the end, or nil if the step is done.
func (l *Lease) start(verb string, s step.Step) (wait func() error, err error) {
	starter, is := s.(step.Starter)
	switch {
	case is && verb == do:
		return starter.Start(l.World)
	case is:
		return starter.StartUndo(l.World)
	case verb == do:
		return nil, s.Do(l.World)
	}
	return nil, s.Undo(l.World)
}

// before tells whether the step in flight must have ended before another one.
func (u *inFlight) before(s step.Step) bool {
	_, another := s.(step.Starter)
	return another || s.HCA() == u.HCA() || s.HCA() == node.ID{}
}

// end waits for the step's end.
func (u *inFlight) end() error {
	return u.lease.report(u.verb, u.Step, u.begun.and(u.lease.measure(u.wait)))
}
