package lease

import (
	"net/netip"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
)

// claimUplink takes an address for the job in the table, and keeps there what the interfaces had whose packets are
// judged for it. It does not fail for an automatic uplink, which the site did not ask for in so many
// words: the job then has none.
func (t *taking) claimUplink(now *table.Table) error {
	before := now.Hooked
	err := host.PickUplink(now, t.pool, t.World.Job, t.World.Run)
	if err == nil && t.pool != nil && t.pool.Auto {
		err = t.World.OnHost(func(*scan.View) error { return network.HoldHooks(t.World, now, ports.Settings{Uplinks: t.pool.Ways}) })
	}
	if err == nil || !t.pool.Auto {
		return err
	}
	now.FreeUplink(t.World.Job, t.World.Run)
	now.Hooked = before
	t.Host.Notice(t.World.Job, "no way out: %s", err)
	return nil
}

// networks returns the steps that make the job's network between its nodes, and its uplink. Either may
// be nil.
func (t *taking) networks(nodes *jobnet.Network) (*network.Overlay, *network.Uplink) {
	over, up := network.Plan(t.Host.Config, t.job.UID, t.pool, t.uplink, nodes)
	if up != nil && t.Host.Config.Uplink.Inbound {
		cpus, err := sysfs.CPUs(t.Host.Sys)
		up.Whole = t.job.Share.Whole(cpus) // Whole is false if it needs the CPUs and they are not known
		if !up.Whole && err != nil {
			t.Host.Notice(t.World.Job, "nobody beyond the node reaches the job: %s", err)
		}
	}
	return over, up
}

// made returns the uplink that the job has after its steps, or nil.
func (t *taking) made() *table.Uplink {
	if why := t.World.WayOut.Lacking; why != nil {
		t.Host.Notice(t.World.Job, "no way out: %s", why)
		return nil
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
func interfaceNames(hcas []step.HCA) (all []string) {
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

// leadRails routes packets for HCAs that only the job's other nodes have through the overlay: these HCAs may be on other
// rails. It needs no undo: the routes go with the namespace.
func (t *taking) leadRails(look *host.Look, nodes *jobnet.Network, hcas []step.HCA) error {
	if nodes == nil || len(nodes.Link.Peers) == 0 {
		return nil
	}
	all, err := look.Rails()
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
