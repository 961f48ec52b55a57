package step

import (
	"fmt"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

// due returns the settings that the interface can have by now. It defers those that it shares with
// an interface that another lease has, even if that one is on the node at the moment: it is about
// to leave then, or has not got its own settings back. Such an interface may also have been away when the settings were
// read: IPv6 keeps routes from an address that has left the node.
func (s *Settings) due(w *world.World, v *scan.View) (*Settings, error) {
	delete(w.Deferred, s.Interface)
	foreign := s.Settings.Foreign()
	if w.Leased == nil || len(s.Settings.Others)+len(foreign) == 0 {
		return s, nil
	}
	due := *s
	hcas := map[link.ID]node.ID{s.Interface: s.Of}
	var away []snapshot.Other
	for _, o := range w.Owners(foreign) {
		hcas[o.ID], away = o.HCA, append(away, o.Other)
	}
	due.Settings.Others = slices.Concat(due.Settings.Others, away)
	for _, o := range s.Settings.Others {
		hca, leased, err := w.Leased(o.ID, func() (node.ID, error) { return v.HCAOf(o.ID) })
		if err != nil {
			return nil, fmt.Errorf("see who has %s: %w", o.Name, err)
		}
		if leased {
			hcas[o.ID], away = hca, append(away, o)
		}
	}
	if len(away) == 0 {
		return s, nil
	}
	var shared snapshot.Shared
	if due.Settings, shared = due.Settings.Without(away); len(shared.Others) == 0 {
		return s, nil
	}
	shared.ID = s.Interface
	deferred := table.Deferred{Job: w.Job, Run: w.Run, Shared: shared, Of: []table.Member{{Interface: s.Interface, Name: s.Settings.Name, HCA: s.Of}}}
	for _, o := range shared.Others {
		if _, known := hcas[o.ID]; !known {
			hca, err := v.HCAOf(o.ID)
			if err != nil {
				return nil, fmt.Errorf("see whose %s is: %w", o.Name, err)
			}
			hcas[o.ID] = hca
		}
		deferred.Of = append(deferred.Of, table.Member{Interface: o.ID, Name: o.Name, HCA: hcas[o.ID]})
	}
	if w.Deferred == nil {
		w.Deferred = map[link.ID]table.Deferred{}
	}
	w.Deferred[s.Interface] = deferred
	return &due, nil
}
