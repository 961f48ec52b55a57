package opened

import (
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/recovery"
	"gresnet/lib/lease/step"
)

// beginTraffic begins to read what the HCAs carried for the job. If the prolog failed, they carried
// nothing.
func (l *Lease) beginTraffic(notes []recovery.Note) *host.Traffic {
	var all []*step.Access
	for _, s := range notes {
		if a, is := s.Step.(*step.Access); is && !l.unused {
			all = append(all, a)
		}
	}
	return l.Look().BeginTraffic(all)
}

// tellTraffic tells what an HCA carried when its note is struck. No later unwinding looks at that
// note, so each HCA's traffic is told once.
func (l *Lease) tellTraffic(s recovery.Note) {
	a, is := s.Step.(*step.Access)
	if !is || l.notStruck[a.ID] != nil {
		return
	}
	for _, t := range l.carried[a.ID] {
		l.Host.Log(event.Event{
			Kind: event.Traffic, Job: l.World.Job, Run: l.World.Run, HCA: a.ID.String(), Identity: a.ID, Device: a.Name, Port: &t,
		})
	}
}
