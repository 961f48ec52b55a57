package lease

import (
	"context"
	"errors"
	"slices"

	"gresnet/lib/forwarding"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/nft"
	"gresnet/lib/overlay"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// claimUplink takes an address for a job in the table, and notes which interfaces have to forward
// for it. It does not fail for an automatic uplink, which the site did not ask for in so many
// words: the job then has none.
func (l *open) claimUplink(t *table.Table, pool *uplink.Pool, j job.Job, claim *step.Claim) error {
	before := t.Forwarding
	err := host.PickUplink(t, pool, j.ID, j.Run.String())
	if err == nil {
		claim.Forwarding, err = l.holdForwarding(t, pool)
	}
	if err == nil || !pool.Auto {
		return err
	}
	t.FreeUplink(j.ID, j.Run.String())
	t.Forwarding = before
	l.node.Notice(j.ID, "no way out: %s", err)
	return nil
}

// holdForwarding notes which interfaces have to forward for an automatic uplink.
func (l *open) holdForwarding(t *table.Table, pool *uplink.Pool) (held []table.Forwarding, err error) {
	if pool == nil || !pool.Auto {
		return nil, nil
	}
	err = l.world.OnHost(func(v *scan.View) error {
		held, err = forwarding.Hold(v, t, pool.Leads)
		return err
	})
	return held, err
}

// apart returns an error if the overlay has the name of an interface of the job's HCAs. If the
// uplink has such a name, it is the step that fails.
func (l *open) apart(s *step.Uplink, network *overlay.Network, come []*step.Settings) error {
	for _, c := range come {
		names := append([]string{c.Settings.Name}, c.Settings.AltNames...)
		if s != nil && slices.Contains(names, s.Pool.Name) {
			s.Clash = host.NameTaken("uplink", s.Pool.Name)
		}
		if network != nil && slices.Contains(names, network.Link.Name) {
			return host.NameTaken("overlay", network.Link.Name)
		}
	}
	return nil
}

// letIn leads connections to the node on to a job that has the whole node, if the site wants that.
func (l *open) letIn(s *step.Uplink, j job.Job) {
	c := l.node.Config
	if s == nil || !c.Uplink.Inbound {
		return
	}
	cpus, err := sysfs.CPUs(l.node.Sys)
	if !j.Share.Whole(cpus) { // it is false, too, if it needs the CPUs and they are not known
		if err != nil {
			l.node.Notice(j.ID, "nobody beyond the node reaches the job: %s", err)
		}
		return
	}
	s.Inbound = &nft.Inbound{Kept: c.Overlay.Services}
	for _, i := range s.Pool.Leads {
		s.Inbound.Leads = append(s.Inbound.Leads, i.Index)
	}
}

// had returns the uplink that a job has after its steps, or nil.
func (l *open) had(s *step.Uplink, u *table.Uplink) *table.Uplink {
	if s != nil && s.Lacking == nil && s.Closed != nil {
		l.node.Notice(l.world.Job, "nobody beyond the node reaches the job: %s", s.Closed)
	}
	if s == nil || s.Lacking == nil {
		return u
	}
	l.node.Notice(l.world.Job, "no way out: %s", s.Lacking)
	return nil
}

// dropUplink removes an uplink of a job without a lease, and frees its address.
func (n *Host) dropUplink(ctx context.Context, u table.Uplink) error {
	l, done, err := n.LookFor(ctx, u.Job)
	if err != nil {
		return err
	}
	defer done()
	l.World.Run = u.Run
	if err := step.UplinkFrom(u).Undo(l.World); err != nil {
		return remains(err)
	}
	var failed error
	err = n.Table().Update(ctx, func(t *table.Table) error {
		failed = step.FreeUplink(l.World, t, u.Job, u.Run)
		return nil
	})
	return errors.Join(failed, err)
}

// dropUplinks removes all uplinks of a job without a lease, and frees their addresses.
func (n *Host) dropUplinks(ctx context.Context, id uint32, t table.Table) error {
	var failed []error
	for _, u := range t.Uplinks {
		if u.Job == id {
			failed = append(failed, n.dropUplink(ctx, u))
		}
	}
	return errors.Join(failed...)
}
