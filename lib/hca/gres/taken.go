package gres

import (
	"fmt"
	"strings"
	"time"

	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
)

// Holder is who has an HCA that is not free.
type Holder struct {
	Job         uint32
	Since       time.Time
	Quarantined string // why nobody may have it
	User        string // no job has it: processes of users, which use it all the same
}

// String says so of an HCA.
func (h Holder) String() string {
	if h.User != "" {
		return fmt.Sprintf("no job has it, but %s uses it, and until that ends no job gets it", h.User)
	}
	if h.Quarantined != "" {
		return fmt.Sprintf("it is quarantined since job %d: %s", h.Job, h.Quarantined)
	}
	return fmt.Sprintf("job %d has it since %s", h.Job, h.Since.Format("2006-01-02 15:04:05"))
}

// Holding is an HCA that is not free.
type Holding struct {
	Entry  Entry
	Holder Holder
}

// Taken means that others hold what a job is to have: it can have it when they
// give it back. Until then it is the fault that it wraps.
//
// Slurm does not start a job before what it counts for it is free, so that it is
// not is the node's fault. What Slurm does not count, others may well hold on a
// node that is in order: then it is the job's. A quarantined HCA without which
// there is not enough is the node's fault either way, or jobs would go on coming
// to a node that fails them. One that a user's process uses is nobody's fault but that
// user's, and never the node's: any user could drain it.
type Taken struct {
	By    []Holding
	want  Want
	cause error
}

// Shared refuses what a job has by its GPUs, or by having the node to itself, where
// one that lives has that, too: GPU shards, MPS and suspended jobs are counted by
// Slurm for several. It is nil where Slurm counts the HCAs themselves.
func (t *Taken) Shared() *Refusal {
	if t.want.Source != config.GPU && t.want.Source != config.Node {
		return nil
	}
	r := refuse(HeldByJobs, t.want, "%s", t)
	r.Do = "GN308 jobs that share GPUs (shards, MPS) or the node cannot share its HCAs: have one at a time ask for these"
	return r
}

func (t *Taken) Error() string { return t.cause.Error() }
func (t *Taken) Unwrap() error { return t.cause }

// counted tells whether it was Slurm that found what the want says free: the
// GRES itself, the GPUs that it hangs on, or all of the node.
func (w Want) counted() bool {
	switch w.Source {
	case config.Fixed, config.File, config.Program:
		return false
	}
	return true
}

// heldIndex returns an index that the job is to have, and somebody has.
func heldIndex(w Want, by Holding) *Taken {
	e, holder := by.Entry, by.Holder
	t := &Taken{By: []Holding{by}, want: w}
	switch {
	case holder.User != "":
		return &Taken{want: w, cause: usedBy(w, "%s (%s): %s", e.HCA.Name, e, holder)}
	case holder.Quarantined != "":
		t.cause = hint.With(
			fmt.Errorf("%s (%s): %s", e.HCA.Name, e, holder),
			"GN189 mend what is wrong with the HCA, then run: gresnet release "+e.HCA.Name,
		)
	case w.counted():
		t.cause = hint.With(
			fmt.Errorf("%s (%s): %s", e.HCA.Name, e, holder),
			fmt.Sprintf("GN190 see whether job %d still runs here; if not, run: gresnet sweep %d", holder.Job, holder.Job),
		)
	default:
		t.cause = uncounted(w, "%s (%s): %s", e.HCA.Name, e, holder)
	}
	return t
}

// short is a count with too few free HCAs: others hold some, or it is not known
// which HCAs some are. short says whose fault that is: the node's, if the HCAs that
// are quarantined or not known would have been enough.
func short(w Want, free, all int, by []Holding, drifted []Entry) error {
	var texts []string
	var jobs []Holding // who may give theirs back
	spoilt := len(drifted)
	for _, b := range by {
		texts = append(texts, fmt.Sprintf("%s (%s): %s", b.Entry.HCA.Name, b.Entry, b.Holder))
		if b.Holder.Quarantined != "" {
			spoilt++
		}
		if b.Holder.User == "" {
			jobs = append(jobs, b)
		}
	}
	for _, e := range drifted {
		texts = append(texts, e.Drift.Error())
	}
	why := fmt.Sprintf("%d of %d are free here; %s", free, all, strings.Join(texts, "; "))
	if len(by) == 0 {
		return hint.With(fmt.Errorf("choose %s: %s", w, why), hint.Whole(drifted[0].Drift))
	}
	used := len(jobs) < len(by)
	if w.counted() && !used || spoilt > 0 && free+spoilt >= w.Count {
		return &Taken{jobs, w, hint.With(
			fmt.Errorf("choose %s: %s", w, why),
			"GN191 run gresnet status: mend and release what is quarantined, and see whether the jobs still run here",
		)}
	}
	if used {
		return &Taken{jobs, w, usedBy(w, "%s", why)}
	}
	return &Taken{jobs, w, uncounted(w, "%s", why)}
}

// usedBy refuses a job what users' processes use.
func usedBy(w Want, format string, a ...any) *Refusal {
	r := refuse(UsedByUsers, w, format, a...)
	r.Do = "GN309 end the process that is named, or ask for fewer HCAs"
	return r
}

// uncounted refuses a job what Slurm has not counted for it.
func uncounted(w Want, format string, a ...any) *Refusal {
	r := refuse(HeldByJobs, w, format, a...)
	r.Do = "GN310 Slurm does not count what source " + w.Source + " gives: let fewer of these jobs run on a node at once"
	return r
}
