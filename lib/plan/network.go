package plan

import (
	"gresnet/lib/config"
	"gresnet/lib/network"
	"gresnet/lib/overlay"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// Uplink returns the step that makes an uplink; nil if the job has none.
func Uplink(pool *uplink.Pool, u *table.Uplink, uid uint32, forwarding []table.Forwarding) *network.Uplink {
	if pool == nil || u == nil {
		return nil
	}
	return &network.Uplink{Type: u.Type, Address: u.Address, NAT: pool.NAT, Pool: *pool, UID: uid, Forwarding: forwarding}
}

// Overlay returns the step that makes an overlay; nil if the job has none.
func Overlay(n *overlay.Network, c config.Overlay, out *network.Uplink) *network.Overlay {
	if n == nil {
		return nil
	}
	s := network.NewOverlay(n.Link)
	s.Services, s.Out, s.Slurmd = c.Services, out, n.Slurmd
	if out != nil && out.Pool.Auto && s.Calls() {
		out.MTU = n.Link.MTU
	}
	return s
}
