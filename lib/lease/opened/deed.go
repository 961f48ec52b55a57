package opened

import (
	"errors"
	"time"

	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/step"
)

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

// and adds a deed's second part.
func (t measured) and(u measured) measured {
	return measured{t.took + u.took, u.err}
}

// Do does a step by a function, and logs how it ended. It notes nothing: that is CarryOut's, or the function's.
func (l *Lease) Do(s step.Step, deed func() error) error { return l.timed(do, s, deed) }

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
	var differences step.DifferencesError
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
