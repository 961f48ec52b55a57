package inspect

import (
	"context"
	"os"

	"gresnet/lib/environment"
	"gresnet/lib/gres"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/network"
	"gresnet/lib/overlay"
	"gresnet/lib/plan"
	"gresnet/lib/source"
	"gresnet/lib/step"
)

// Ask asks the site's sources what a job is entitled to, for one who only wants to know.
func Ask(ctx context.Context, n *host.Host, j job.Job) (wants []gres.Want, notes []string, err error) {
	return source.Ask(ctx, j, n.Config, n.Local(n.Mapping))
}

// Preview is what a prolog would do for a job now, and what the job would have then.
type Preview struct {
	Isolation string          // as config.Access has it; empty: the job gets nothing
	Entries   []gres.Entry    // that it would claim
	HCAs      []plan.HCA      // the same
	Uplink    *network.Uplink // nil: none
	Overlay   *overlay.Network
	Names     []string    // that mean the node's address in the job and not on the node
	Steps     []step.Step // in order
}

// Plan returns what a prolog would do for a job that is entitled to something. Nothing is done,
// no lock is taken: meanwhile another job may claim what is free now.
func Plan(ctx context.Context, n *host.Host, j job.Job, wants []gres.Want) (Preview, error) {
	var v Preview
	t, err := n.Known()
	if err != nil {
		return v, err
	}
	u, err := n.Users()
	if err != nil {
		return v, err
	}
	defer u.Close()
	var p host.Picked
	err = u.Repeat(func() (err error) {
		p, err = n.Pick(&t, j, wants, u)
		return err
	})
	if err != nil || len(p.Entries) == 0 {
		return v, err
	}
	l, done, err := n.LookFor(ctx, j.ID)
	if err != nil {
		return v, err
	}
	defer done()
	access := n.Access(j)
	pool, err := l.PoolFor(access)
	if err != nil {
		return v, err
	}
	if err := host.PickUplink(&t, pool, j.ID, j.Run.String()); err != nil {
		return v, err
	}
	v.Uplink = plan.Uplink(pool, t.Uplink(j.ID, j.Run.String()), j.UID, nil)
	mode, hcas, err := l.Read(j, access, p)
	if err != nil {
		return v, err
	}
	v.Overlay, err = l.Network(ctx, j, access, n.CanMove)
	if err != nil {
		return v, err
	}
	if hosts, err := os.ReadFile("/etc/hosts"); err == nil && v.Overlay != nil {
		_, v.Names = environment.Hosts(string(hosts), v.Overlay.Address())
	}
	v.Isolation, v.Entries, v.HCAs = access.Isolation, p.Entries, hcas
	over := plan.Overlay(v.Overlay, n.Config.Overlay, v.Uplink, false)
	v.Steps = append([]step.Step{&step.Claim{}}, plan.Take(j, mode, access, v.Uplink, over, hcas)...)
	return v, nil
}
