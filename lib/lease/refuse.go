package lease

import (
	"context"
	"fmt"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
)

// refuse writes a lease that says why the job gets nothing: its steps fail with the reason, and the
// node stays in service.
func (n *Host) refuse(ctx context.Context, j job.Job, refusal *gres.Refusal) error {
	l, err := create(ctx, n.Host, j)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := n.refuseBeside(j, refusal); err != nil {
		return l.Failed(err)
	}
	return nil
}

// refuseBeside refuses a job by the lease that is there, beside what remains in it to be undone.
func (n *Host) refuseBeside(j job.Job, refusal *gres.Refusal) error {
	id := hint.ID(refusal)
	why := refusal.Error() + hint.Tag(id)
	n.Log(event.Event{Kind: event.LeaseRefused, Job: j.ID, Notice: "refused: " + why, Reason: refusal.Reason, ID: id})
	return environment.Refuse(n.State.Lease(j.ID), j, why)
}

// tooSlow refuses a job whose prolog has no time left, and has undone what it did: any user can keep a node
// busy, and so drain it.
func tooSlow(j job.Job, err error) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.TooSlow, Ask: fmt.Sprintf("what job %d is to have", j.ID), Why: "the prolog's time is over: " + err.Error(),
		Do: "GN843 the node is as it was: start the job again; if that does not help, see what keeps the node busy, or raise deadline.prolog",
	}
}

// stays refuses a job for which an HCA does not come back: any user can keep one in a call, and the machine busy.
func stays(j job.Job, err error) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.TooSlow, Ask: fmt.Sprintf("what job %d is to have", j.ID), Why: "the prolog's time is over: " + err.Error(),
		Do: "GN872 an HCA that was not returned is kept from later jobs: gresnet status says why; end the process that keeps it, then run gresnet cleanup",
	}
}
