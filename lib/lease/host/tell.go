package host

import (
	"cmp"
	"fmt"
	"slices"

	"gresnet/lib/lease/event"
	"gresnet/lib/words/node"
)

// Notice tells of what a person may want to know.
func (n *Host) Notice(job uint32, format string, a ...any) { n.Tell(event.Remark, job, format, a...) }

// Tell tells of an event that has nothing but a text.
func (n *Host) Tell(kind event.Kind, job uint32, format string, a ...any) {
	n.Log(event.Event{Kind: kind, Job: job, Notice: fmt.Sprintf(format, a...)})
}

// TellQuarantines tells which HCAs are kept from later jobs.
func (n *Host) TellQuarantines(job uint32, away map[node.ID]string) {
	events := make([]event.Event, 0, len(away))
	for id, reason := range away {
		events = append(events, event.Event{
			Kind: event.HCAQuarantined, Job: job, HCA: id.String(),
			Notice: fmt.Sprintf("HCA %s is kept from later jobs: %s", id, reason),
		})
	}
	slices.SortFunc(events, func(a, b event.Event) int { return cmp.Compare(a.HCA, b.HCA) })
	for _, e := range events {
		n.Log(e)
	}
}
