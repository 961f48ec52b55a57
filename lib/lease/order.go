package lease

import (
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/journal"
)

// Entry is a step with its number in the journal; 0 if the journal does not have it.
type Entry struct {
	step.Step
	Number int
	Undone bool
}

// decode returns the entries of a journal as steps, and why some of them do not read.
func decode(undoLog *journal.Journal) (all []Entry, why []string) {
	for _, g := range undoLog.Gaps {
		why = append(why, g.Why)
	}
	for _, n := range undoLog.Entries {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			why = append(why, fmt.Sprintf("entry %d: %v", n.Number, err))
			continue
		}
		all = append(all, Entry{s, n.Number, n.Undone})
	}
	return all, why
}

// sortForUndo sorts entries by kind, and within a kind as they were done: so the kernel has all that
// it keeps in the order of arrival (interfaces, routes to one destination) in the old order again.
// Moves of RDMA devices and of interfaces keep the order in which they were done, see step.Plan.
func sortForUndo(entries []Entry) {
	rank := func(s Entry) int {
		r := step.Rank(s.Step)
		if r >= step.ReturnBegins && r < step.Moved {
			return step.ReturnBegins
		}
		return r
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return rank(a) - rank(b) })
}

// firstOfRank returns where in a rollback's order a rank begins.
func firstOfRank(entries []Entry, rank int) int {
	first := slices.IndexFunc(entries, func(s Entry) bool { return step.Rank(s.Step) >= rank })
	if first < 0 {
		return len(entries)
	}
	return first
}

// hcasOf returns the HCAs that entries are about, each once.
func hcasOf(entries []Entry) (ids []node.ID) {
	for _, s := range entries {
		if id := s.HCA(); id != (node.ID{}) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stepsOf returns the steps of entries.
func stepsOf(all []Entry) (list []step.Step) {
	for _, s := range all {
		list = append(list, s.Step)
	}
	return list
}
