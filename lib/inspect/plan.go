package inspect

import (
	"context"

	"gresnet/lib/gres"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/plan"
	"gresnet/lib/source"
	"gresnet/lib/step"
)

// Ask asks the site's sources what a job is entitled to, for one who only wants to know.
func Ask(ctx context.Context, n *host.Host, j job.Job) (wants []gres.Want, notes []string, err error) {
	return source.Ask(ctx, j, n.Config, n.Local(n.Mapping))
}

// Plan is what a prolog would do for a job that is entitled to something: the
// entries that it would claim, and its steps in their order. Nothing is done,
// no lock is taken: meanwhile another job may claim what is free now.
func Plan(ctx context.Context, n *host.Host, j job.Job, wants []gres.Want) ([]gres.Entry, []step.Step, error) {
	t, err := n.Known()
	if err != nil {
		return nil, nil, err
	}
	p, err := n.Pick(&t, j, wants)
	if err != nil || len(p.Entries) == 0 {
		return nil, nil, err
	}
	l, done, err := n.LookFor(ctx, j.ID)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	access := n.Access(j)
	pool, err := l.PoolFor(access)
	if err != nil {
		return nil, nil, err
	}
	if err := host.PickUplink(&t, pool, j.ID, j.Run.String()); err != nil {
		return nil, nil, err
	}
	up := plan.Uplink(pool, t.Uplink(j.ID, j.Run.String()), j.UID, nil)
	mode, hcas, err := l.Read(j, access, p)
	if err != nil {
		return nil, nil, err
	}
	network, err := l.Network(ctx, j, access, n.CanMove)
	if err != nil {
		return nil, nil, err
	}
	return p.Entries, append([]step.Step{&step.Claim{}}, plan.Take(j, mode, access, up, plan.Overlay(network, n.Config.Overlay, up), hcas)...), nil
}
