package lease

import (
	"slices"

	"gresnet/lib/forwarding"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/nft"
	"gresnet/lib/opened"
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
func claimUplink(l *opened.Lease, t *table.Table, pool *uplink.Pool, j job.Job, claim *step.Claim) error {
	before := t.Forwarding
	err := host.PickUplink(t, pool, j.ID, j.Run.String())
	if err == nil {
		claim.Forwarding, err = holdForwarding(l, t, pool)
	}
	if err == nil || !pool.Auto {
		return err
	}
	t.FreeUplink(j.ID, j.Run.String())
	t.Forwarding = before
	l.Host.Notice(j.ID, "no way out: %s", err)
	return nil
}

// holdForwarding notes which interfaces have to forward for an automatic uplink.
func holdForwarding(l *opened.Lease, t *table.Table, pool *uplink.Pool) (held []table.Forwarding, err error) {
	if pool == nil || !pool.Auto {
		return nil, nil
	}
	err = l.World.OnHost(func(v *scan.View) error {
		held, err = forwarding.Hold(v, t, pool.Leads)
		return err
	})
	return held, err
}

// checkNames returns an error if the overlay has the name of an interface of the job's HCAs. If the
// uplink has such a name, it is the step that fails.
func checkNames(s *step.Uplink, network *overlay.Network, come []*step.Settings) error {
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

// leadIn leads connections to the node on to a job that has the whole node, if the site wants that.
func leadIn(l *opened.Lease, s *step.Uplink, j job.Job) {
	c := l.Host.Config
	if s == nil || !c.Uplink.Inbound {
		return
	}
	cpus, err := sysfs.CPUs(l.Host.Sys)
	if !j.Share.Whole(cpus) { // it is false, too, if it needs the CPUs and they are not known
		if err != nil {
			l.Host.Notice(j.ID, "nobody beyond the node reaches the job: %s", err)
		}
		return
	}
	s.Inbound = &nft.Inbound{Kept: c.Overlay.Services}
	for _, i := range s.Pool.Leads {
		s.Inbound.Leads = append(s.Inbound.Leads, i.Index)
	}
}

// made returns the uplink that a job has after its steps, or nil.
func made(l *opened.Lease, s *step.Uplink, u *table.Uplink) *table.Uplink {
	if s != nil && s.Lacking == nil && s.Closed != nil {
		l.Host.Notice(l.World.Job, "nobody beyond the node reaches the job: %s", s.Closed)
	}
	if s == nil || s.Lacking == nil {
		return u
	}
	l.Host.Notice(l.World.Job, "no way out: %s", s.Lacking)
	return nil
}
