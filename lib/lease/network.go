package lease

import (
	"net/netip"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/plan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// claimUplink takes an address for the job in the table, and notes which interfaces have to forward
// for it. It does not fail for an automatic uplink, which the site did not ask for in so many
// words: the job then has none.
func (t *taking) claimUplink(now *table.Table) error {
	before := now.Forwarding
	err := host.PickUplink(now, t.pool, t.World.Job, t.World.Run)
	if err == nil {
		t.forwarding, err = t.holdForwarding(now)
	}
	if err == nil || !t.pool.Auto {
		return err
	}
	now.FreeUplink(t.World.Job, t.World.Run)
	now.Forwarding = before
	t.Host.Notice(t.World.Job, "no way out: %s", err)
	return nil
}

// holdForwarding notes which interfaces have to forward for an automatic uplink.
func (t *taking) holdForwarding(now *table.Table) (held []table.Forwarding, err error) {
	if t.pool == nil || !t.pool.Auto {
		return nil, nil
	}
	err = t.World.OnHost(func(v *scan.View) error {
		held, err = network.HoldForwarding(v, now, t.pool.Leads)
		return err
	})
	return held, err
}

// networks returns the steps that make the job's network between its nodes, and its uplink. Either may
// be nil.
func (t *taking) networks(nodes *jobnet.Network) (*network.Overlay, *network.Uplink) {
	up := plan.Uplink(t.pool, t.uplink, t.job.UID, t.forwarding)
	if up != nil {
		up.Jobs = t.jobs
	}
	cpus, err := sysfs.CPUs(t.Host.Sys)
	whole := t.job.Share.Whole(cpus) // it is false, too, if it needs the CPUs and they are not known
	over := plan.Overlay(nodes, t.Host.Config.Overlay, up, whole)
	if up != nil && t.Host.Config.Uplink.Inbound {
		t.leadIn(up, whole, err)
	}
	return over, up
}

// leadIn leads connections to the node on to a job that has the whole node.
func (t *taking) leadIn(s *network.Uplink, whole bool, err error) {
	if !whole {
		if err != nil {
			t.Host.Notice(t.World.Job, "nobody beyond the node reaches the job: %s", err)
		}
		return
	}
	s.Inbound = &nft.Inbound{Kept: t.Host.Config.Overlay.Services}
	for _, i := range s.Pool.Leads {
		s.Inbound.Leads = append(s.Inbound.Leads, i.Index)
	}
}

// made returns the uplink that the job has after its steps, or nil.
func (t *taking) made() *table.Uplink {
	switch out := t.World.WayOut; {
	case out.Lacking != nil:
		t.Host.Notice(t.World.Job, "no way out: %s", out.Lacking)
		return nil
	case out.Closed != nil:
		t.Host.Notice(t.World.Job, "nobody beyond the node reaches the job: %s", out.Closed)
	}
	return t.uplink
}

// checkNames returns an error if the overlay has the name of an interface of the job's HCAs. If the
// uplink has such a name, it is the step that fails.
func checkNames(s *network.Uplink, nodes *jobnet.Network, come []string) error {
	if s != nil && slices.Contains(come, s.Pool.Name) {
		s.Clash = host.NameTaken("uplink", s.Pool.Name)
	}
	if nodes != nil && slices.Contains(come, nodes.Link.Name) {
		return host.NameTaken("overlay", nodes.Link.Name)
	}
	return nil
}

// interfaceNames returns all names of the interfaces that a job has of its HCAs.
func interfaceNames(hcas []plan.HCA) (all []string) {
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			all = append(append(all, s.Settings.Name), s.Settings.AltNames...)
		}
		for _, c := range h.Children {
			all = append(all, c.Name)
		}
	}
	return all
}

// leadRails leads to the overlay, when the job has its HCAs, what is for HCAs that only its peers have: they may be on
// other rails. It needs no undo: the routes go with the namespace.
func (t *taking) leadRails(look *host.Look, nodes *jobnet.Network, hcas []plan.HCA) error {
	if nodes == nil || len(nodes.Link.Peers) == 0 {
		return nil
	}
	all, err := t.rails(look)
	if err != nil {
		return err
	}
	var own []netip.Addr
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			for _, a := range s.Settings.Addresses {
				at := a.Addr()
				all = slices.DeleteFunc(all, func(to netip.Prefix) bool { return to == at.Masked() })
				if at.Addr().Is4() && !at.Addr().IsLinkLocalUnicast() {
					own = append(own, at.Addr())
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return t.World.InJob(func(*scan.View) error { return virtual.LeadRails(nodes.Link, all, own) })
}

// rails returns the IPv4 networks of the interfaces that other jobs of the node have, and of those that jobs can get.
func (t *taking) rails(look *host.Look) (all []netip.Prefix, err error) {
	has, err := t.canGet(look)
	if err != nil {
		return nil, err
	}
	jobs, err := t.Host.Leased()
	for _, job := range jobs {
		if job != t.World.Job {
			has = append(has, t.hadBy(job)...)
		}
	}
	for _, a := range has {
		if to := a.Masked(); to.Addr().Is4() && to.Bits() < 31 && !to.Addr().IsLinkLocalUnicast() && !slices.Contains(all, to) {
			all = append(all, to)
		}
	}
	return all, err
}

// canGet returns the addresses of the interfaces on the node that a job can get.
func (t *taking) canGet(look *host.Look) (all []netip.Prefix, err error) {
	moves, err := look.CanMove()
	if err != nil {
		return nil, err
	}
	err = t.World.OnHost(func(v *scan.View) error {
		node, err := jobnet.ReadHost(v.Link.Conn)
		if err != nil {
			return err
		}
		var free []link.Interface
		var indices []int
		for _, i := range node.Interfaces {
			if len(node.Networks[i.Index]) > 0 && moves(i) {
				free, indices = append(free, i), append(indices, i.Index)
			}
		}
		return v.Link.Once(func() error {
			v.Link.About(indices...)
			for _, i := range free {
				if !look.Needs(v, i) {
					all = append(all, node.Networks[i.Index]...)
				}
			}
			return nil
		})
	})
	return all, err
}

// hadBy returns the addresses of the interfaces that a job has taken from the node. Of a job that has ended, or
// whose journal does not read, it returns none.
func (t *taking) hadBy(job uint32) (all []netip.Prefix) {
	book, err := journal.Read(t.Host.State.Lease(job).Journal())
	if err != nil {
		return nil
	}
	for _, had := range step.NotedSettings(book) {
		for _, a := range had.Settings.Addresses {
			all = append(all, a.Addr())
		}
	}
	return all
}
