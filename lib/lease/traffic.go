package lease

import (
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
)

// beginTraffic begins to read what the HCAs carried for the job. If the prolog failed, they carried
// nothing.
func (l *Lease) beginTraffic(entries []Entry) *host.Traffic {
	var all []*step.Access
	for _, s := range entries {
		if a, is := s.Step.(*step.Access); is && !l.unused {
			all = append(all, a)
		}
	}
	return l.Look().BeginTraffic(all)
}

// tellTraffic tells what an HCA carried when its entry is marked undone. No later rollback looks at that
// entry, so each HCA's traffic is told once.
func (l *Lease) tellTraffic(s Entry) {
	a, is := s.Step.(*step.Access)
	if !is || l.unmarked[a.ID] != nil {
		return
	}
	for _, t := range l.carried[a.ID] {
		if t.Volume == nil && len(t.Hardware) == 0 {
			continue
		}
		l.Host.Log(event.Event{
			Kind: event.Traffic, Job: l.World.Job, Run: l.World.Run, HCA: a.ID.String(), Identity: a.ID, Device: a.Name, Port: &t,
		})
	}
}

// faults compares what the ports of an HCA counted for the job with the site's limits. It warns, or returns an
// error where no job is to get the HCA.
func (l *Lease) faults(s step.Step) error {
	a, is := s.(*step.Access)
	if !is {
		return nil
	}
	limits := l.Host.Config.Health
	var worse []error
	for _, t := range l.carried[a.ID] {
		fault := func(over counters.Over) error { return world.FaultsError{HCA: a.Name, Port: t.Port, Over: over} }
		quarantined := t.Over(limits.Quarantine)
		for _, over := range quarantined {
			worse = append(worse, fault(over))
		}
		for _, over := range t.Over(limits.Warn) {
			if !slices.ContainsFunc(quarantined, func(o counters.Over) bool { return o.Counter == over.Counter }) {
				l.World.Warn(a.ID, fault(over))
			}
		}
	}
	return hint.Join(worse...)
}
