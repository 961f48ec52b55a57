package lease

import (
	"errors"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/step"
	"gresnet/lib/world"
)

// measured is what a deed took of this run's time, and how it ended.
type measured struct {
	took time.Duration
	err  error
}

func (l *open) measure(deed func() error) measured {
	start := l.node.Now()
	err := deed()
	return measured{l.node.Now().Sub(start), err}
}

// and is a deed with its second part.
func (t measured) and(u measured) measured {
	return measured{t.took + u.took, u.err}
}

// timed does a deed of a step, and tells of it.
func (l *open) timed(verb string, s world.Deed, deed func(*world.World) error) error {
	return l.report(verb, s, l.measure(func() error { return deed(l.world) }))
}

// report tells of a step's deed, and returns how it ended.
func (l *open) report(verb string, s world.Deed, t measured) error {
	err := t.err
	e := event.Event{
		Kind: event.StepDone, Job: l.world.Job,
		Verb: verb, Step: s.Kind(), Deed: verb + " " + s.Kind(), Took: t.took, Err: err,
	}
	var differences step.DifferencesError
	var port world.PortError
	switch {
	case errors.As(err, &differences):
		e.Kind = event.Differs
	case errors.As(err, &port):
		e.Kind = event.PortWorse
	case err != nil:
		e.Kind = event.StepFailed
	}
	if s.Object() != "" {
		e.Deed += " " + s.Object()
	}
	if s.HCA().GUID != "" {
		e.HCA = s.HCA().String()
	}
	l.node.Log(e)
	return err
}
