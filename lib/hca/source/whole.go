package source

import (
	"context"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
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
		a.grant(e, config.Node, false)
	}
	a.note("the job has the node to itself")
	return a, nil
}
