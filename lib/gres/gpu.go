package gres

import (
	"fmt"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/job"
)

// byGPUs answers with the HCAs that serve a job's GPUs. An HCA of whose GPUs the
// job has a part is not granted, because another job may have the rest of them
// and the two would fight over it; unless the site lets the first have it.
func byGPUs(gpus []int, partial string, m Mapping) answer {
	if !slices.ContainsFunc(m, func(e Entry) bool { return len(e.GPUs) > 0 }) {
		return answer{} // nobody said which HCA serves which GPU
	}
	a := answer{mine: true}
	for _, e := range m {
		has := common(e.GPUs, gpus)
		switch {
		case len(has) == 0:
		case len(has) == len(e.GPUs):
			a.grant(e, false)
		case partial == config.PartialFirst:
			a.grant(e, true)
			a.note("%s serves GPUs %s, of which the job has %s: granted if no other job has it", e, job.FormatIndices(e.GPUs), job.FormatIndices(has))
		default:
			a.note("%s is not granted: it serves GPUs %s, of which the job has %s", e, job.FormatIndices(e.GPUs), job.FormatIndices(has))
		}
	}
	if len(a.wants) == 0 {
		a.note("no HCA is granted for GPUs %s", job.FormatIndices(gpus))
	}
	return a
}

// grant adds an entry to the want for its GRES name.
func (a *answer) grant(e Entry, ifFree bool) {
	i := slices.IndexFunc(a.wants, func(w Want) bool { return w.Gres == e.Gres && w.IfFree == ifFree })
	if i < 0 {
		i = len(a.wants)
		a.wants = append(a.wants, Want{Gres: e.Gres, IfFree: ifFree, Source: config.GPU})
	}
	w := &a.wants[i]
	w.Indices = append(w.Indices, e.Index)
	slices.Sort(w.Indices)
}

func (a *answer) note(format string, v ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, v...))
}

// common is what is in both.
func common(a, b []int) []int {
	var both []int
	for _, n := range a {
		if slices.Contains(b, n) {
			both = append(both, n)
		}
	}
	return both
}
