package gres

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/hint"
	"gresnet/lib/indices"
	"gresnet/lib/node"
)

// Topology is where the node's GPUs and HCAs sit.
type Topology struct {
	GPUs []node.Location           // by Slurm's index
	HCAs map[node.ID]node.Location // those that sit on PCI

	// Divided says that Slurm's indices are those of parts of GPUs, and not of these.
	Divided bool
}

// Serve says of a mapping which HCA serves which GPU, if the site has not: see
// deal. gpus are those that are asked about, and must be there.
func (t Topology) Serve(m Mapping, gpus []int) (Mapping, error) {
	if m.ServesGPUs() {
		return m, t.have(m, gpus)
	}
	if t.Divided && len(gpus) > 0 {
		return nil, hint.With(
			fmt.Errorf("find the HCAs for GPUs %s: the node's GPUs are divided (MIG), and these are the numbers of their parts", indices.Format(gpus)),
			"GN187 [[hca]] entries with gpus = say which HCA serves which",
		)
	}
	if len(t.GPUs) == 0 && len(gpus) > 0 && len(m) > 0 {
		return nil, hint.With(fmt.Errorf("find the HCAs for GPUs %s: %w", indices.Format(gpus), ErrNoGPU), compareGPUs)
	}
	if t.Divided || len(t.GPUs) == 0 {
		return m, nil
	}
	if err := t.have(m, gpus); err != nil {
		return nil, err
	}
	// Whom the others serve hangs on whom that one would, wherever it sat.
	if drift := m.Drift(); drift != nil && len(gpus) > 0 {
		return nil, fmt.Errorf("find the HCAs for GPUs %s: %w", indices.Format(gpus), drift)
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
		if g < len(t.GPUs) || len(t.GPUs) == 0 || t.Divided || m.Names([]int{g}) {
			continue
		}
		return hint.With(
			fmt.Errorf("find the HCAs for GPUs %s: there is no GPU %d, the node has %d", indices.Format(gpus), g, len(t.GPUs)),
			compareGPUs,
		)
	}
	return nil
}

// Nearest is the GPU of a job that is an entry's, of a mapping that says which
// HCA serves which GPU: one that it serves, or else the one that sits nearest.
// Of several it is the lowest. -1: there is none.
func (t Topology) Nearest(e Entry, gpus []int) int {
	at, known := t.HCAs[e.HCA.ID]
	best := -1
	for _, g := range gpus {
		if slices.Contains(e.GPUs, g) {
			return g
		}
		if !known || t.Divided || g >= len(t.GPUs) {
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
		if g < len(t.GPUs) && !t.Divided {
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
