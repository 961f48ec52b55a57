package network

import (
	"slices"

	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/state/table"
)

// Programs judge what goes by the node's interfaces, as long as a job has an uplink. That belongs to no
// single job: the node table says what the interfaces had before. HoldHooks writes it there before anything changes
// them. Each job's uplink attaches what is missing. Whoever frees the last such uplink ends it (endHooks). The
// first and the last run under the node lock.

// HoldHooks writes into the table what the interfaces have that a job's uplink changes.
func HoldHooks(w *world.World, t *table.Table, s ports.Settings) error {
	if len(t.Hooked) == 0 {
		if err := w.Ports().Refresh(); err != nil {
			return err
		}
	}
	all, err := ports.Look(s)
	if err != nil {
		return err
	}
	for _, b := range all {
		if !slices.ContainsFunc(t.Hooked, func(o ports.Before) bool { return o.Index == b.Index }) {
			t.Hooked = append(t.Hooked, b)
		}
	}
	return nil
}

// hooksInVain tells whether programs judge although no job needs it any more.
func hooksInVain(t *table.Table) bool { return len(t.Hooked) > 0 && !t.LeadOut() }

// endHooks returns what the interfaces had. If it fails, the entries stay in the table, so that the next run
// tries again: write the table even if endHooks fails.
func endHooks(w *world.World, t *table.Table) error {
	if err := w.Ports().Detach(t.Hooked); err != nil {
		return err
	}
	t.Hooked = nil
	return nil
}
