package lease

import (
	"context"
	"fmt"
	"net/netip"

	"gresnet/lib/config"
	"gresnet/lib/job"
	"gresnet/lib/link"
	"gresnet/lib/overlay"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
)

// network is the job's between its nodes; nil if it has none, or is in the node's network. canMove tells which
// interfaces of the node can be a job's.
func (l *look) network(ctx context.Context, j job.Job, access config.Access, canMove func() (func(link.Interface) bool, error)) (*overlay.Network, error) {
	c := l.node.Config.Overlay
	if !c.On() || access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	n, err := overlay.New(ctx, c, j, overlay.World{
		Hosts: overlay.Hosts(overlay.Confs(j)), Port: overlay.Port(overlay.Confs(j)), Look: overlay.Look,
		Way: func(to netip.Addr) (netip.Addr, int, error) { return l.way(to, canMove) },
	})
	if n == nil && err == nil {
		l.node.notice(j.ID, "no overlay: Slurm does not say in SLURM_NODELIST which nodes the job has")
	}
	return n, err
}

// dropOverlay removes what a job whose lease is gone may have of an overlay.
func (n *Host) dropOverlay(ctx context.Context, id uint32) error {
	l, done, err := n.lookFor(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if err := new(step.Overlay).Undo(l.world); err != nil {
		return remains(err)
	}
	return nil
}

// CheckOverlay is why jobs cannot have an overlay as the site wants it, as far as the node tells.
func (n *Host) CheckOverlay() error {
	if !n.Config.Overlay.On() {
		return nil
	}
	looking, done, err := n.lookFor(context.Background(), 0)
	if err != nil {
		return err
	}
	defer done()
	if err := n.nameTaken("overlay", n.Config.Overlay.Interface); err != nil {
		return err
	}
	return looking.world.OnHost(func(v *scan.View) error {
		if err := virtual.HoldsLowPorts(); err != nil {
			return err
		}
		node, err := uplink.Look(v.Link)
		if err != nil {
			return err
		}
		return overlay.Apart(n.Config, node)
	})
}

func (l *look) way(to netip.Addr, canMove func() (func(link.Interface) bool, error)) (from netip.Addr, mtu int, err error) {
	err = l.world.OnHost(func(v *scan.View) (err error) {
		if from, mtu, err = wayFrom(v, to); err != nil || l.node.Config.Overlay.Underlay == "" {
			return err
		}
		n, err := uplink.Look(v.Link)
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

// wayFrom is the address from which the node reaches another, and what an overlay by that way can
// have as MTU.
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

// overlayStep is the step that makes an overlay; nil if the job has none.
func overlayStep(n *overlay.Network, c config.Overlay, out *step.Uplink) *step.Overlay {
	if n == nil {
		return nil
	}
	s := step.NewOverlay(n.Link)
	s.Services, s.Out, s.Slurmd = c.Services, out, n.Slurmd
	if out != nil && out.Pool.Auto && s.Calls() {
		out.MTU = n.Link.MTU
	}
	return s
}
