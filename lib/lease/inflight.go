package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/step"
)

// CarryOut writes the steps of a plan into the journal and does them of a plan, and then what they left to do.
func (l *Lease) CarryOut(ctx context.Context, steps []step.Step) (err error) {
	var moving flight
	await := func(some flight) (err error) {
		for _, m := range some {
			if failed := m.end(); !errors.Is(failed, scan.ErrNotBegun) {
				err = hint.Join(err, failed)
			}
		}
		return err
	}
	defer func() { err = hint.Join(err, await(moving)) }()
	for len(steps) > 0 {
		if err := await(moving.before(steps[0])); err != nil {
			return err
		}
		now := steps[:max(1, len(devices(steps)))]
		steps = steps[len(now):]
		for _, s := range now {
			if err := l.inTime(ctx); err != nil {
				return err
			}
			if err := l.AddEntry(s); err != nil {
				return err
			}
		}
		begun, err := l.begin(do, now)
		if err != nil {
			return err
		}
		moving = append(moving, begun...)
	}
	if err := await(moving.all()); err != nil {
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
func (l *Lease) finish() iter.Seq2[world.Action, error] {
	return func(yield func(world.Action, error) bool) {
		for len(l.World.Rest) > 0 {
			r := l.World.Rest[0]
			l.World.Rest = l.World.Rest[1:]
			if !yield(r.Action, l.timed(finish, r.Action, r.Do)) {
				return
			}
		}
	}
}

// flight is the moves of RDMA devices that the kernel works at while the run does others, in their order. It
// works at one at a time: a move assigns the numbers of its character devices again, and only so does each get
// its own again.
type flight []*move

type move struct {
	*step.RDMA
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

// devices returns the RDMA devices of the steps up to the first that is about something else.
func devices(steps []step.Step) (list []*step.RDMA) {
	for _, s := range steps {
		d, is := s.(*step.RDMA)
		if !is {
			break
		}
		list = append(list, d)
	}
	return list
}

// begin does or undoes the first of some steps. If it is a move of an RDMA device, begin returns it in flight, and
// with it the moves that follow it.
func (l *Lease) begin(verb string, steps []step.Step) (moving flight, err error) {
	list := devices(steps)
	if len(list) == 0 {
		action := steps[0].Do
		if verb == undo {
			action = steps[0].Undo
		}
		return nil, l.timed(verb, steps[0], func() error { return action(l.World) })
	}
	var waits []func() error
	of := list[0]
	begun := l.measure(func() (err error) {
		if verb == undo {
			waits = step.StartUndos(l.World, list)
			return nil
		}
		waits, of, err = step.StartMoves(l.World, list)
		return err
	})
	if begun.err != nil {
		return nil, l.report(verb, of, begun)
	}
	for i, wait := range waits {
		moving = append(moving, &move{list[i], l, verb, begun, wait})
		begun = measured{}
	}
	return moving, nil
}

// before takes out the moves that must have ended before a step.
func (f *flight) before(s step.Step) flight {
	_, another := s.(*step.RDMA)
	if another || s.HCA() == (node.ID{}) {
		return f.all()
	}
	n := slices.IndexFunc(*f, func(m *move) bool { return m.HCA() == s.HCA() }) + 1
	first := (*f)[:n]
	*f = (*f)[n:]
	return first
}

// all takes out all moves.
func (f *flight) all() flight {
	all := *f
	*f = nil
	return all
}

// end waits for the move's end.
func (m *move) end() error {
	all := m.lease.measure(m.wait)
	if errors.Is(all.err, scan.ErrNotBegun) {
		return all.err // nothing was done
	}
	all.took += m.begun.took
	return m.lease.report(m.verb, m.RDMA, all)
}

// measured says how long an action took, and how it ended.
type measured struct {
	took time.Duration
	err  error
}

func (l *Lease) measure(action func() error) measured {
	start := l.Host.Now()
	err := action()
	return measured{l.Host.Now().Sub(start), err}
}

// DoBy does a step by a function, and logs how it ended. It adds no entry: that is CarryOut's, or the function's.
func (l *Lease) DoBy(s step.Step, action func() error) error { return l.timed(do, s, action) }

// timed does an action and logs how it ended.
func (l *Lease) timed(verb string, s world.Action, action func() error) error {
	return l.report(verb, s, l.measure(action))
}

// report logs an action, and returns how it ended.
func (l *Lease) report(verb string, s world.Action, t measured) error {
	err := t.err
	e := event.Event{
		Kind: event.StepDone, Job: l.World.Job,
		Verb: verb, Step: s.Kind(), Action: verb + " " + s.Kind(), Took: t.took, Err: err,
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
		e.Action += " " + s.Object()
	}
	e.HCA = s.HCA().String()
	l.Host.Log(e)
	return err
}

// writes counts how often the run wrote the journal, and how long that took: each time is short.
type writes struct {
	count int
	took  time.Duration
}

// write writes into the journal by a function, and counts that.
func (l *Lease) write(f func() error) error {
	start := l.Host.Now()
	err := f()
	l.writes.count++
	l.writes.took += l.Host.Now().Sub(start)
	return err
}

// AddEntry writes a step into the journal.
func (l *Lease) AddEntry(s step.Step) error {
	return l.write(func() error { return l.Journal.Add(s.Kind(), s) })
}
