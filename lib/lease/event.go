package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gresnet/lib/gres"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

// Kind is what kind of event one is: what a log is searched for, and what is counted.
type Kind string

// The kinds of events.
const (
	StepDone       Kind = "step-done"       // a step was done, undone, or looked at again
	StepFailed     Kind = "step-failed"     // it was not
	Differs        Kind = "differs"         // what came home is not as it was
	PortWorse      Kind = "port-worse"      // a port came home, or into the job, without its link, or home with a slower one
	LeaseTaken     Kind = "lease-taken"     // a lease counts from now on
	LeaseRefused   Kind = "lease-refused"   // the job asked for what it cannot have
	LeaseReturned  Kind = "lease-returned"  // all of a lease is undone
	LeaseSwept     Kind = "lease-swept"     // and nobody but the sweep would have done it
	LeaseSpared    Kind = "lease-spared"    // a sweep left a lease alone, since its job is not gone for sure
	HCAQuarantined Kind = "hca-quarantined" // no job gets it until a person has looked
	HCAReleased    Kind = "hca-released"    // a person has
	TableMended    Kind = "table-mended"    // the node table was damaged or gone
	ModeSet        Kind = "mode-set"        // the RDMA netns mode was changed
	ModeWrong      Kind = "mode-wrong"      // it is not what the configuration wants
	Remark         Kind = "remark"          // what a person may want to know besides
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		StepDone, StepFailed, Differs, PortWorse, LeaseTaken, LeaseRefused, LeaseReturned, LeaseSwept,
		LeaseSpared, HCAQuarantined, HCAReleased, TableMended, ModeSet, ModeWrong, Remark,
	}
}

// Event is one thing that happened, for the log.
type Event struct {
	Kind   Kind
	Job    uint32 // 0 if it is no job's
	HCA    string // its identity, if the event is about one
	Notice string // what a person may want to know without acting on it

	Warning string // what a person must know though nothing failed

	// Of a step.
	Verb string // do, finish, undo, verify
	Step string // its kind: rdma, link
	Deed string // all of it, for people: "do rdma mlx5_3"
	Took time.Duration
	Err  error

	Reason gres.Reason // of a refusal
}

// notice tells of what a person may want to know.
func (n *Host) notice(job uint32, format string, a ...any) { n.tell(Remark, job, format, a...) }

func (n *Host) tell(kind Kind, job uint32, format string, a ...any) {
	n.Log(Event{Kind: kind, Job: job, Notice: fmt.Sprintf(format, a...)})
}

// taken is what a deed took of this run's time, and how it ended.
type taken struct {
	took time.Duration
	err  error
}

func (l *open) measure(deed func() error) taken {
	start := l.node.Now()
	err := deed()
	return taken{l.node.Now().Sub(start), err}
}

// and is a deed with its second part.
func (t taken) and(u taken) taken {
	return taken{t.took + u.took, u.err}
}

// timed does a deed of a step, and tells of it.
func (l *open) timed(verb string, s step.Step, deed func(*step.World) error) error {
	return l.report(verb, s, l.measure(func() error { return deed(l.world) }))
}

// report tells of a step's deed, and returns how it ended.
func (l *open) report(verb string, s step.Step, t taken) error {
	err := t.err
	e := Event{
		Kind: StepDone, Job: l.world.Job,
		Verb: verb, Step: s.Kind(), Deed: verb + " " + s.Kind(), Took: t.took, Err: err,
	}
	var differences step.DifferencesError
	var port step.PortError
	switch {
	case errors.As(err, &differences):
		e.Kind = Differs
	case errors.As(err, &port):
		e.Kind = PortWorse
	case err != nil:
		e.Kind = StepFailed
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

// quarantines tells which HCAs are kept from later jobs.
func (n *Host) quarantines(job uint32, away map[node.ID]string) {
	events := make([]Event, 0, len(away))
	for id, reason := range away {
		events = append(events, Event{
			Kind: HCAQuarantined, Job: job, HCA: id.String(),
			Notice: fmt.Sprintf("HCA %s is kept from later jobs: %s", id, reason),
		})
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.HCA, b.HCA) })
	for _, e := range events {
		n.Log(e)
	}
}
