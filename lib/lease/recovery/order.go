package recovery

import (
	"slices"

	"gresnet/lib/lease/step"
	"gresnet/lib/words/node"
)

// SortForUndo sorts notes by kind, and within a kind as they were done: so the kernel has all that
// it keeps in the order of arrival (interfaces, routes to one destination) in the old order again.
// whole says that the journal has a note of all that was done. Then moves of RDMA devices and of
// interfaces keep the order in which they were done, see plan.Steps.
func SortForUndo(notes []Note, whole bool) {
	rank := func(s Note) int {
		r := step.Rank(s.Step)
		if whole && r >= step.HomeBegins && r < step.Moved {
			return step.HomeBegins
		}
		return r
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return rank(a) - rank(b) })
}

// FirstOfRank returns where in an unwinding's order a rank begins.
func FirstOfRank(notes []Note, rank int) int {
	first := slices.IndexFunc(notes, func(s Note) bool { return step.Rank(s.Step) >= rank })
	if first < 0 {
		return len(notes)
	}
	return first
}

// HCAsOf returns the HCAs that notes are about, each once.
func HCAsOf(notes []Note) (ids []node.ID) {
	for _, s := range notes {
		if id := s.HCA(); id != (node.ID{}) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// StepsOf returns the steps of notes.
func StepsOf(all []Note) (list []step.Step) {
	for _, s := range all {
		list = append(list, s.Step)
	}
	return list
}
