package gres

import (
	"cmp"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
)

// Nearer gives wants of Slurm's other indices: those of the free HCAs that are nearest to the job, as many of
// each type as Slurm has counted. Of HCAs that are as near it takes those that Slurm chose. A want that
// it cannot fill stays as it is, and Choose says what is wrong.
func Nearer(wants []Want, m Mapping, held func(node.ID) (Holder, bool), near func(a, b node.ID) int) []Want {
	if near == nil {
		near = func(node.ID, node.ID) int { return 0 }
	}
	taken := map[node.ID]bool{}
	wants = slices.Clone(wants)
	for i, w := range wants {
		if w.Source == config.Scontrol && len(w.Indices) > 0 {
			if chosen, enough := m.nearest(w, taken, held, near); enough {
				wants[i].Indices = chosen
			}
		}
		for _, index := range wants[i].Indices {
			if k := m.find(w.Gres, index); k >= 0 {
				taken[m[k].HCA.ID] = true
			}
		}
	}
	return wants
}

// nearest chooses the indices of a want's HCAs. taken are HCAs that other wants have.
func (m Mapping) nearest(w Want, taken map[node.ID]bool, held func(node.ID) (Holder, bool), near func(a, b node.ID) int) (indices []int, enough bool) {
	parts := map[node.ID]int{} // that the want has of an HCA
	for _, own := range w.Indices {
		k := m.find(w.Gres, own)
		if k < 0 || w.Type != "" && m[k].Type != "" && w.Type != m[k].Type {
			return nil, false
		}
		free := slices.DeleteFunc(slices.Clone(m), func(e Entry) bool {
			_, is := held(e.HCA.ID)
			return is || e.Gres != w.Gres || e.Type != m[k].Type || e.Drift != nil || taken[e.HCA.ID] || slices.Contains(indices, e.Index)
		})
		if len(free) == 0 {
			return nil, false
		}
		best := slices.MinFunc(free, func(a, b Entry) int {
			return cmp.Or(
				parts[a.HCA.ID.Whole()]-parts[b.HCA.ID.Whole()], near(a.HCA.ID, b.HCA.ID),
				falseFirst(!slices.Contains(w.Indices, a.Index), !slices.Contains(w.Indices, b.Index)), a.Index-b.Index,
			)
		})
		parts[best.HCA.ID.Whole()]++
		indices = append(indices, best.Index)
	}
	slices.Sort(indices)
	return indices, true
}
