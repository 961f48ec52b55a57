package network

import (
	"net/netip"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state/table"
)

// Plan returns the steps that make a job's network between its nodes, and its uplink. n is the network, and u the
// uplink's address; each may be nil, and so is its step. It is pure.
func Plan(c config.Config, uid uint32, pool *jobnet.Pool, u *table.Uplink, n *jobnet.Network) (over *Overlay, up *Uplink) {
	if n != nil {
		over = &Overlay{Name: n.Link.Name, Address: n.Link.Address.String(), Leader: n.Leader, Link: n.Link}
	}
	if pool == nil || u == nil {
		return over, nil
	}
	up = &Uplink{Type: u.Type, Address: u.Address, Pool: *pool, UID: uid}
	up.Settings = ports.Settings{
		Uplinks: pool.Ways, Locals: pool.All, Ephemeral: pool.Ephemeral, Services: c.Overlay.Services, Denied: c.Uplink.Deny,
	}
	if n == nil {
		return nil, up
	}
	if pool.Name == n.Link.Name {
		up.Pool.Name = config.UplinkName // the site's name is the one that the node's interface has
	}
	up.Over, up.Slurmd, up.Slurmds = over, n.Slurmd, n.Slurmds
	up.Called = n.Srun == ports.Block{}
	up.Settings.SlurmUser, up.Settings.Srun, up.Settings.Callers = n.SlurmUser(), n.Srun, callers(n)
	return over, up
}

// callers returns who calls srun and salloc in the job, at the job's block. If slurm.conf says other ports, nobody
// reaches them.
func callers(n *jobnet.Network) (all []netip.Prefix) {
	for _, a := range n.Controllers {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, r := range n.Cluster {
		all = append(all, prefixes(r[0], r[1])...)
	}
	for _, node := range n.Nodes {
		all = append(all, netip.PrefixFrom(node.Address, node.Address.BitLen()))
	}
	return all
}

// prefixes returns the networks that are a range of addresses.
func prefixes(first, last netip.Addr) (all []netip.Prefix) {
	for first.IsValid() && first.Compare(last) <= 0 {
		bits := first.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(first, bits-1)
			if wider.Masked().Addr() != first || highest(wider).Compare(last) > 0 {
				break
			}
			bits--
		}
		p := netip.PrefixFrom(first, bits)
		all, first = append(all, p), highest(p).Next()
	}
	return all
}

// highest returns the last address of a network.
func highest(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for at := p.Bits(); at < len(b)*8; at++ {
		b[at/8] |= 1 << (7 - at%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
