package plan

import (
	"slices"

	"gresnet/lib/kernel/nft"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
	"gresnet/lib/words/config"
)

// Uplink returns the step that makes an uplink; nil if the job has none.
func Uplink(pool *jobnet.Pool, u *table.Uplink, uid uint32, forwarding []table.Forwarding) *network.Uplink {
	if pool == nil || u == nil {
		return nil
	}
	return &network.Uplink{Type: u.Type, Address: u.Address, NAT: pool.Auto, Pool: *pool, UID: uid, Forwarding: forwarding}
}

// Overlay returns the step that makes an overlay; nil if the job has none. It tells the uplink, which
// may be nil, of the job's nodes, and of who calls srun in the job. whole says that no other job is
// on the node.
func Overlay(n *jobnet.Network, c config.Overlay, out *network.Uplink, whole bool) *network.Overlay {
	if n == nil {
		return nil
	}
	s := network.NewOverlay(n.Link, n.Leader)
	if out == nil {
		return s
	}
	if out.Pool.Name == n.Link.Name {
		out.Pool.Name = config.UplinkName // the site's name is the one that the node's interface has
	}
	out.Over, out.Services, out.Slurmd = s, c.Services, n.Slurmd
	if block, has := out.Pool.Ports(out.Address); has {
		out.Calls = calls(n, out, block, whole)
	}
	return s
}

// calls returns who calls srun and salloc in a job, and at which ports: the job's block, or those that
// slurm.conf says, which all jobs of the node share.
func calls(n *jobnet.Network, out *network.Uplink, block virtual.Ports, whole bool) *nft.Calls {
	k := &nft.Calls{Ports: [][2]int{{block.First, block.Last}}, From: n.Controllers, Also: n.Cluster}
	if slices.Contains(n.Controllers, n.Address()) {
		k.Own = []uint32{0, n.SlurmUser}
	}
	if n.Srun.First > 0 {
		if !whole {
			return nil
		}
		k.Ports = append(k.Ports, [2]int{n.Srun.First, n.Srun.Last})
	}
	for _, i := range out.Pool.Leads {
		k.Leads = append(k.Leads, i.Index)
	}
	return k
}
