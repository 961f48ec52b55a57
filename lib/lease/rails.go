package lease

import (
	"net/netip"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/plan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/journal"
)

// findRails finds the IPv4 networks of the interfaces that jobs of the node can get. The job may have HCAs on
// other rails than its peers, whom it then reaches by the overlay. canMove tells which interfaces a job can get.
func (t *taking) findRails(look *host.Look, nodes *jobnet.Network, canMove func() (func(link.Interface) bool, error)) error {
	if nodes == nil || len(nodes.Link.Peers) == 0 {
		return nil
	}
	moves, err := canMove()
	if err != nil {
		return err
	}
	var all []netip.Prefix
	err = t.World.OnHost(func(v *scan.View) error {
		node, err := jobnet.ReadHost(v.Link.Conn)
		for _, i := range node.Interfaces {
			if has := node.Networks[i.Index]; len(has) > 0 && moves(i) && !look.Needs(v, i) {
				all = append(all, has...)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	jobs, err := t.Host.Leased()
	for _, job := range jobs {
		all = append(all, t.hadBy(job)...)
	}
	for _, a := range all {
		if to := a.Masked(); to.Addr().Is4() && to.Bits() < 31 && !to.Addr().IsLinkLocalUnicast() && !slices.Contains(nodes.Link.Rails, to) {
			nodes.Link.Rails = append(nodes.Link.Rails, to)
		}
	}
	return err
}

// leadRails leads to the overlay, when the job has its HCAs, what is for HCAs that only its peers have. It needs
// no undo: the routes go with the namespace.
func (t *taking) leadRails(nodes *jobnet.Network, hcas []plan.HCA) error {
	if nodes == nil || len(nodes.Link.Rails) == 0 {
		return nil
	}
	var own []netip.Addr
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			for _, a := range s.Settings.Addresses {
				at := a.Addr()
				nodes.Link.Rails = slices.DeleteFunc(nodes.Link.Rails, func(to netip.Prefix) bool { return to == at.Masked() })
				if at.Addr().Is4() && !at.Addr().IsLinkLocalUnicast() {
					own = append(own, at.Addr())
				}
			}
		}
	}
	return t.World.InJob(func(*scan.View) error { return virtual.LeadRails(nodes.Link, own) })
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
