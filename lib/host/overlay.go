package host

import (
	"context"
	"fmt"
	"net/netip"

	"gresnet/lib/config"
	"gresnet/lib/job"
	"gresnet/lib/link"
	"gresnet/lib/overlay"
	"gresnet/lib/scan"
	"gresnet/lib/slurm"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
)

// Network returns the network between the job's nodes, or nil if the job has none or stays in the
// node's network. canMove tells which of the node's interfaces a job can get.
func (l *Look) Network(ctx context.Context, j job.Job, access config.Access, canMove func() (func(link.Interface) bool, error)) (*overlay.Network, error) {
	c := l.Host.Config.Overlay
	if !c.On() || access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	n, err := overlay.New(ctx, c, j, overlay.World{
		Slurm: func() (slurm.Conf, error) { return overlay.ReadSlurm(j) }, Look: overlay.Look,
		Way: func(to netip.Addr) (netip.Addr, int, error) { return l.way(to, canMove) },
	})
	if n == nil && err == nil {
		l.Host.Notice(j.ID, "no overlay: Slurm does not say in SLURM_NODELIST which nodes the job has")
	}
	return n, err
}

func (l *Look) way(to netip.Addr, canMove func() (func(link.Interface) bool, error)) (from netip.Addr, mtu int, err error) {
	err = l.World.OnHost(func(v *scan.View) (err error) {
		if from, mtu, err = wayFrom(v, to); err != nil || l.Host.Config.Overlay.Underlay == "" {
			return err
		}
		n, err := uplink.Look(v.Link.Conn)
		if err != nil {
			return err
		}
		if n.Moves, err = canMove(); err != nil {
			return err
		}
		return n.Stays(from)
	})
	return from, mtu, err
}

// wayFrom returns the source address of packets to another node, and the MTU of an overlay that
// uses it.
func wayFrom(v *scan.View, to netip.Addr) (from netip.Addr, mtu int, err error) {
	from, index, err := virtual.Way(to)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	i, err := v.Link.Get(index)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("find a route to %s: %w", to, err)
	}
	return from, virtual.OverlayMTU(from, i.MTU), nil
}
