package source

import (
	"context"
	"slices"

	"gresnet/lib/hca/gres"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
)

// nodeSource answers for a job that has the node to itself: it has all HCAs.
type nodeSource struct{ local Local }

func (s nodeSource) ask(_ context.Context, j job.Job) (answer, error) {
	cpus, err := s.local.CPUs()
	if err != nil {
		return answer{}, about(j, config.Node, err)
	}
	if !j.Share.Whole(cpus) {
		return answer{}, nil
	}
	m, err := s.local.Mapping(nil)
	if err != nil {
		return answer{}, about(j, config.Node, err)
	}
	a := answer{mine: true}
	for _, e := range m {
		i := slices.IndexFunc(a.wants, func(w gres.Want) bool { return w.Gres == e.Gres })
		if i < 0 {
			i = len(a.wants)
			a.wants = append(a.wants, gres.Want{Gres: e.Gres, Source: config.Node})
		}
		a.wants[i].Indices = append(a.wants[i].Indices, e.Index)
		slices.Sort(a.wants[i].Indices)
	}
	a.note("the job has the node to itself")
	return a, nil
}
