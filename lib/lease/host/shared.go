package host

import (
	"fmt"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
)

// apartHint says how jobs can have HCAs that share settings of the node.
const apartHint = `GN840 leave such routes to a routing daemon; or give both HCAs to one job always; or remove the route, or leave one HCA out of the mapping or set interface = "keep" in its [[hca]]`

// Apart refuses HCAs that share routes or next hop objects with an interface that another job can have. Such settings
// come back only when both interfaces are back, and one lease does not wait for another one.
func (l *Look) Apart(v *scan.View, hcas []step.HCA) error {
	var ours []int
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			ours = append(ours, s.Settings.Index)
		}
	}
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			for _, sharing := range s.Settings.Sharings() {
				if err := l.together(v, sharing, ours); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// together refuses what an interface of the job shares with one that may leave without it.
func (l *Look) together(v *scan.View, s snapshot.Sharing, ours []int) error {
	if s.With.Index == 0 {
		return hint.With(fmt.Errorf("%s is from %s, which the node does not have now: gresnet cannot restore it", s.What, s.With.Sources[0]), apartHint)
	}
	moves, err := l.CanMove()
	if err != nil {
		return err
	}
	below, err := v.Link.Below(s.With.Index)
	if err != nil {
		return err
	}
	all, err := v.Link.List()
	if err != nil {
		return err
	}
	for _, i := range all {
		isUnder := i.Index == s.With.Index || slices.Contains(below, i.Index)
		if isUnder && !slices.Contains(ours, i.Index) && l.leaves(v, i, moves) {
			return hint.With(fmt.Errorf("%s needs %s, too, which another job can have: gresnet cannot restore it", s.What, i.Name), apartHint)
		}
	}
	return nil
}

// leaves tells whether a job can get an interface. One with a master never moves.
func (l *Look) leaves(v *scan.View, i link.Interface, moves func(link.Interface) bool) bool {
	return i.Master == 0 && moves(i) && !l.needs(v, i)
}
