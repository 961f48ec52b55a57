package lease

import (
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/journal"
)

// Note is a step with its number in the journal; 0 if the journal does not have it.
type Note struct {
	step.Step
	Number int
	Struck bool
}

// decode returns the notes of a journal as steps, and why some of them do not read.
func decode(undoLog *journal.Journal) (all []Note, why []string) {
	for _, g := range undoLog.Gaps {
		why = append(why, g.Why)
	}
	for _, n := range undoLog.Notes {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			why = append(why, fmt.Sprintf("note %d: %v", n.Number, err))
			continue
		}
		all = append(all, Note{s, n.Number, n.Struck})
	}
	return all, why
}

// sortForUndo sorts notes by kind, and within a kind as they were done: so the kernel has all that
// it keeps in the order of arrival (interfaces, routes to one destination) in the old order again.
// Moves of RDMA devices and of interfaces keep the order in which they were done, see step.Plan.
func sortForUndo(notes []Note) {
	rank := func(s Note) int {
		r := step.Rank(s.Step)
		if r >= step.HomeBegins && r < step.Moved {
			return step.HomeBegins
		}
		return r
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return rank(a) - rank(b) })
}

// firstOfRank returns where in a rollback's order a rank begins.
func firstOfRank(notes []Note, rank int) int {
	first := slices.IndexFunc(notes, func(s Note) bool { return step.Rank(s.Step) >= rank })
	if first < 0 {
		return len(notes)
	}
	return first
}

// hcasOf returns the HCAs that notes are about, each once.
func hcasOf(notes []Note) (ids []node.ID) {
	for _, s := range notes {
		if id := s.HCA(); id != (node.ID{}) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stepsOf returns the steps of notes.
func stepsOf(all []Note) (list []step.Step) {
	for _, s := range all {
		list = append(list, s.Step)
	}
	return list
}
