package gres

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
)

// Holder is who has an HCA that is not free.
type Holder struct {
	Job         uint32
	Since       time.Time
	Quarantined string // why no job may have it
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

// Taken means that others hold what the job is to have: it can have it when they
// return it. Until then it is the fault that it wraps.
//
// That is the job's, also where Slurm has counted an HCA as free: when a job shrinks while it runs
// (scontrol update NumNodes=), Slurm gives its HCAs to others before its epilog has ended, and who holds an RDMA-CM
// id has another job's HCA quarantined. It is the node's only if the node lacks an HCA that would be enough.
type Taken struct {
	By    []Holding
	want  Want
	why   string
	cause error
}

// Shared refuses what a job has by its GPUs, or by having the node to itself, where
// one that lives has that, too: GPU shards, MPS and suspended jobs are counted by
// Slurm for several. It is nil where Slurm counts the HCAs themselves.
func (t *Taken) Shared() *Refusal {
	if t.want.Source != config.GPU && t.want.Source != config.Node {
		return nil
	}
	r := refuse(HeldByJobs, t.want, "%s", t.why)
	r.Do = "GN308 jobs that share GPUs (shards, MPS) or the node cannot share its HCAs: have one at a time ask for these"
	return r
}

// Spared says why those who hold the HCAs were not cleaned up, where Slurm has counted these as free.
func (t *Taken) Spared(why error) error {
	if !t.want.counted() || !errors.As(t.cause, new(*Refusal)) {
		return fmt.Errorf("%w: %w", t, why)
	}
	r := refuse(HeldByJobs, t.want, "%s: %s", t.why, why)
	r.Do = cmp.Or(hint.Whole(why), hint.Whole(t.cause)) // a cleanup by name would spare such a job, too
	return r
}

func (t *Taken) Error() string { return t.cause.Error() }
func (t *Taken) Unwrap() error { return t.cause }

// counted tells whether it was Slurm that found what the want says free: the
// GRES itself, the GPUs that it hangs on, or all of the node.
func (w Want) counted() bool {
	switch w.Source {
	case config.Fixed, config.Program:
		return false
	}
	return true
}

// heldIndex returns an index that the job is to have, and somebody has.
func heldIndex(w Want, by Holding) *Taken {
	e, holder := by.Entry, by.Holder
	t := &Taken{By: []Holding{by}, want: w, why: fmt.Sprintf("%s (%s): %s", e.HCA.Name, e, holder)}
	switch {
	case holder.User != "":
		t.By, t.cause = nil, usedBy(w, "%s", t.why)
	case holder.Quarantined != "":
		r := refuse(Quarantined, w, "%s", t.why)
		r.Do = "GN189 repair the HCA, then run: gresnet release " + e.HCA.Name
		t.cause = r
	case w.counted():
		r := refuse(HeldByJobs, w, "%s", t.why)
		r.Do = fmt.Sprintf("GN190 see whether job %d still runs here; if not, run: gresnet cleanup %d", holder.Job, holder.Job)
		t.cause = r
	default:
		t.cause = uncounted(w, "%s", t.why)
	}
	return t
}

// short is a count with too few free HCAs: others hold some, or it is not known
// which HCAs some are. That is the node's fault if those which are not known would have been enough.
func short(w Want, free, all int, by []Holding, drifted []Entry) error {
	var texts []string
	var jobs []Holding // who may return theirs
	spoilt := 0
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
	sick := spoilt > 0 && free+spoilt >= w.Count
	t := &Taken{By: jobs, want: w, why: why}
	switch {
	case len(drifted) > 0 && free+len(drifted) >= w.Count:
		t.cause = hint.With(fmt.Errorf("choose %s: %s", w, why), hint.Whole(drifted[0].Drift))
	case len(jobs) < len(by) && !sick:
		t.cause = usedBy(w, "%s", why)
	case !w.counted() && !sick:
		t.cause = uncounted(w, "%s", why)
	default:
		r := refuse(HeldByJobs, w, "%s", why)
		if sick {
			r.Reason = Quarantined
		}
		r.Do = "GN191 run gresnet status: fix and release what is quarantined, and see whether the jobs still run here"
		t.cause = r
	}
	return t
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
