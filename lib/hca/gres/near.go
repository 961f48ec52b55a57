package gres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// Topology is where the node's GPUs and HCAs sit.
type Topology struct {
	GPUs []node.Location           // by Slurm's index
	HCAs map[node.ID]node.Location // those that sit on PCI

	// Unknown is why nothing tells which of these Slurm means by a number; nil: it is known.
	Unknown error
}

// Serve says of a mapping which HCA serves which GPU, if the site has not: see
// deal. gpus are those that are asked about, and must be there. That Slurm has GPUs which the kernel has not, such
// as files in gres.conf that are none, check says before a job does: were it the node's fault, each such job would drain one.
func (t Topology) Serve(m Mapping, gpus []int) (Mapping, error) {
	if m.ServesGPUs() {
		return m, t.have(m, gpus)
	}
	if t.Unknown != nil && len(gpus) > 0 {
		return nil, &Refusal{Ask: "the HCAs for GPUs " + node.FormatIndices(gpus), Why: t.Unknown.Error(), Do: hint.Whole(t.Unknown)}
	}
	if len(t.GPUs) == 0 && len(gpus) > 0 && len(m) > 0 {
		return nil, &Refusal{Ask: "the HCAs for GPUs " + node.FormatIndices(gpus), Why: "the node has no GPU that can be found", Do: compareGPUs, cause: ErrNoGPU}
	}
	if t.Unknown != nil || len(t.GPUs) == 0 {
		return m, nil
	}
	if err := t.have(m, gpus); err != nil {
		return nil, err
	}
	// Whom the others serve hangs on whom that one would, wherever it sat.
	if drift := m.Drift(); drift != nil && len(gpus) > 0 {
		return nil, fmt.Errorf("find the HCAs for GPUs %s: %w", node.FormatIndices(gpus), drift)
	}
	return t.deal(m), nil
}

// ErrNoGPU means that of a job's GPUs none can be found: they are gone, or they are
// of a kind that looks like none. A site whose other sources know the job need not care.
var ErrNoGPU = errors.New("the node has no GPU that can be found")

const compareGPUs = "GN188 compare gres.conf with the GPUs that the kernel has; [[hca]] entries with gpus = say which HCA serves which"

// have wants GPUs to be there, as far as can be told: one that an entry names is, and
// of all others those that can be found tell how many there are.
func (t Topology) have(m Mapping, gpus []int) error {
	for _, g := range gpus {
		if t.has(g) || len(t.GPUs) == 0 || t.Unknown != nil || m.Names([]int{g}) {
			continue
		}
		return &Refusal{Ask: "the HCAs for GPUs " + node.FormatIndices(gpus), Why: fmt.Sprintf("there is no GPU %d, the node has %d", g, t.count()), Do: compareGPUs}
	}
	return nil
}

// has tells whether the kernel has the GPU that Slurm means by a number.
func (t Topology) has(gpu int) bool { return gpu < len(t.GPUs) && t.GPUs[gpu].PCI != "" }

// count returns how many GPUs the kernel has.
func (t Topology) count() (n int) {
	for g := range t.GPUs {
		if t.has(g) {
			n++
		}
	}
	return n
}

// Nearest returns the GPU of a job that is an entry's, of a mapping that says which
// HCA serves which GPU: one that it serves, or else the one that sits nearest.
// Of several it is the lowest. -1: there is none.
func (t Topology) Nearest(e Entry, gpus []int) int {
	at, known := t.HCAs[e.HCA.ID]
	best := -1
	for _, g := range gpus {
		if slices.Contains(e.GPUs, g) {
			return g
		}
		if !known || t.Unknown != nil || !t.has(g) {
			continue
		}
		if best < 0 || at.To(t.GPUs[g]).Compare(at.To(t.GPUs[best])) < 0 {
			best = g
		}
	}
	return best
}

// NearCores compares HCAs by how many of a job's cores are on their NUMA node: the
// most first. cores are a NUMA node's.
func (t Topology) NearCores(has []int, cores map[int][]int) func(a, b node.ID) int {
	shared := func(id node.ID) (n int) {
		at, known := t.HCAs[id]
		if !known {
			return 0
		}
		for _, c := range cores[at.NUMA] {
			if slices.Contains(has, c) {
				n++
			}
		}
		return n
	}
	return func(a, b node.ID) int { return shared(b) - shared(a) }
}

// Near compares HCAs by how near they are to the nearest of a job's GPUs.
func (t Topology) Near(gpus []int) func(a, b node.ID) int {
	var locations []node.Location
	for _, g := range gpus {
		if t.has(g) && t.Unknown == nil {
			locations = append(locations, t.GPUs[g])
		}
	}
	distance := func(id node.ID) node.Distance {
		at, known := t.HCAs[id]
		if !known {
			return node.Location{}.Nearest(nil)
		}
		return at.Nearest(locations)
	}
	return func(a, b node.ID) int { return distance(a).Compare(distance(b)) }
}

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
