package source

import (
	"context"
	"errors"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
)

// gpuSource answers with the HCAs that serve a job's GPUs.
type gpuSource struct {
	partial string
	mapping func(gpus []int) (gres.Mapping, error)
}

// ask grants no HCA of whose GPUs the job has a part: another job may have the
// rest of them, and the two would fight over it; unless the site lets the first
// have it.
func (s gpuSource) ask(_ context.Context, j job.Job) (answer, error) {
	if len(j.GPUs) == 0 {
		return answer{}, nil
	}
	m, err := s.mapping(j.GPUs)
	if errors.Is(err, gres.ErrNoGPU) {
		return answer{unless: about(j, config.GPU, err)}, nil
	}
	if err != nil {
		return answer{}, about(j, config.GPU, err)
	}
	if !m.ServesGPUs() {
		return answer{}, nil // neither the site nor the node says which HCA serves which GPU
	}
	a := answer{mine: true}
	for _, e := range m {
		has := common(e.GPUs, j.GPUs)
		switch {
		case len(has) == 0:
		case len(has) == len(e.GPUs):
			a.grant(e, config.GPU, false)
		case s.partial == config.PartialFirst:
			a.grant(e, config.GPU, true)
			a.note("%s serves GPUs %s, of which the job has %s: granted if no other job has it", e, node.FormatIndices(e.GPUs), node.FormatIndices(has))
		default:
			a.note("%s is not granted: it serves GPUs %s, of which the job has %s", e, node.FormatIndices(e.GPUs), node.FormatIndices(has))
			a.less = append(a.less, a.notes[len(a.notes)-1])
		}
	}
	if len(a.wants) == 0 {
		a.note("no HCA is granted for GPUs %s", node.FormatIndices(j.GPUs))
	}
	return a, nil
}

// grant adds an entry to the want for its GRES name.
func (a *answer) grant(e gres.Entry, source string, ifFree bool) {
	i := slices.IndexFunc(a.wants, func(w gres.Want) bool { return w.Gres == e.Gres && w.IfFree == ifFree })
	if i < 0 {
		i = len(a.wants)
		a.wants = append(a.wants, gres.Want{Gres: e.Gres, IfFree: ifFree, Source: source})
	}
	w := &a.wants[i]
	w.Indices = append(w.Indices, e.Index)
	slices.Sort(w.Indices)
}

// common returns what is in both.
func common(a, b []int) []int {
	var both []int
	for _, n := range a {
		if slices.Contains(b, n) {
			both = append(both, n)
		}
	}
	return both
}
