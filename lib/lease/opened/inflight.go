package opened

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/step"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
)

// CarryOut notes and does the steps of a plan, and then what they left to do.
func (l *Lease) CarryOut(ctx context.Context, steps []step.Step) error {
	f := flight{lease: l}
	err := l.doAll(ctx, steps, &f)
	_, ended := f.end() // also that of a step which was in flight when another one failed
	return hint.Join(err, ended)
}

func (l *Lease) doAll(ctx context.Context, steps []step.Step, f *flight) error {
	for _, s := range steps {
		if f.mustEndBefore(s) {
			if _, err := f.end(); err != nil {
				return err
			}
		}
		if err := l.inTime(ctx); err != nil {
			return err
		}
		if err := l.Note(s); err != nil {
			return err
		}
		if err := f.begin(do, s); err != nil {
			return err
		}
	}
	if _, err := f.end(); err != nil {
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

// flight has the step that the kernel works at while the run does others. There is one at most: a move of an
// RDMA device assigns the numbers of its character devices anew, and only with one move at a time does each
// get its own again.
type flight struct {
	lease *Lease
	step  step.Step // nil: none is in flight
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

// begin does or undoes a step, or leaves it in flight if the kernel can work at it by itself.
func (f *flight) begin(verb string, s step.Step) error {
	var wait func() error
	begun := f.lease.measure(func() (err error) {
		wait, err = f.lease.start(verb, s)
		return err
	})
	if wait == nil {
		return f.lease.report(verb, s, begun)
	}
	f.step, f.verb, f.begun, f.wait = s, verb, begun, wait
	return nil
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

// mustEndBefore tells whether a step is in flight that must have ended before another one.
func (f *flight) mustEndBefore(s step.Step) bool {
	if f.step == nil {
		return false
	}
	_, another := s.(step.Starter)
	return another || s.HCA() == f.step.HCA() || s.HCA() == node.ID{}
}

// end waits for the end of the step in flight, and returns which that was: nil if there was none.
func (f *flight) end() (ended step.Step, err error) {
	if f.step == nil {
		return nil, nil
	}
	ended, f.step = f.step, nil
	all := f.lease.measure(f.wait)
	all.took += f.begun.took
	return ended, f.lease.report(f.verb, ended, all)
}

// measured says how long a deed took, and how it ended.
type measured struct {
	took time.Duration
	err  error
}

func (l *Lease) measure(deed func() error) measured {
	start := l.Host.Now()
	err := deed()
	return measured{l.Host.Now().Sub(start), err}
}

// DoBy does a step by a function, and logs how it ended. It notes nothing: that is CarryOut's, or the function's.
func (l *Lease) DoBy(s step.Step, deed func() error) error { return l.timed(do, s, deed) }

// timed does a deed and logs how it ended.
func (l *Lease) timed(verb string, s world.Deed, deed func() error) error {
	return l.report(verb, s, l.measure(deed))
}

// report logs a deed, and returns how it ended.
func (l *Lease) report(verb string, s world.Deed, t measured) error {
	err := t.err
	e := event.Event{
		Kind: event.StepDone, Job: l.World.Job,
		Verb: verb, Step: s.Kind(), Deed: verb + " " + s.Kind(), Took: t.took, Err: err,
	}
	var differences world.DifferencesError
	var port world.PortError
	var faults world.FaultsError
	switch {
	case errors.As(err, &differences):
		e.Kind = event.Differs
	case errors.As(err, &port), errors.As(err, &faults):
		e.Kind = event.PortWorse
	case err != nil:
		e.Kind = event.StepFailed
	}
	if s.Object() != "" {
		e.Deed += " " + s.Object()
	}
	e.HCA = s.HCA().String()
	l.Host.Log(e)
	return err
}

// notes counts how often the run wrote the journal, and how long that took: each time is short.
type notes struct {
	count int
	took  time.Duration
}

// write writes into the journal by a function, and counts that.
func (l *Lease) write(f func() error) error {
	start := l.Host.Now()
	err := f()
	l.notes.count++
	l.notes.took += l.Host.Now().Sub(start)
	return err
}

// Note writes a step into the journal.
func (l *Lease) Note(s step.Step) error {
	return l.write(func() error { return l.Journal.Note(s.Kind(), s) })
}
