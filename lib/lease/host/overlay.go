package host

import (
	"context"
	"net/netip"

	"gresnet/lib/hca/scan"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/slurm"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
)

// Network returns the network between the job's nodes, or nil if the job has none or stays in the
// node's network. canMove tells which of the node's interfaces a job can get.
func (l *Look) Network(ctx context.Context, j job.Job, access config.Access, canMove func() (func(link.Interface) bool, error)) (*jobnet.Network, error) {
	c := l.Host.Config.Overlay
	if !c.On() || access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	var n *jobnet.Network
	err := l.World.OnHost(func(v *scan.View) error {
		node, err := jobnet.ReadHost(v.Link.Conn)
		if err != nil {
			return err
		}
		n, err = jobnet.NewNetwork(ctx, c, j, jobnet.World{
			Slurm: func() (slurm.Conf, error) { return jobnet.ReadSlurm(j) }, Look: jobnet.Resolve,
			Way:  func(to netip.Addr) (jobnet.Way, error) { return l.way(node, to, canMove) },
			Here: virtual.Addressed,
		})
		return err
	})
	if n == nil && err == nil {
		l.Host.Notice(j.ID, "no overlay: Slurm does not say in SLURM_NODELIST which nodes the job has, or the node has no address")
	}
	return n, err
}

// way returns the source address of packets to another node, and the MTU of an overlay that uses it.
func (l *Look) way(node jobnet.Host, to netip.Addr, canMove func() (func(link.Interface) bool, error)) (w jobnet.Way, err error) {
	if w.From, w.Index, err = virtual.Way(to); err != nil {
		return w, err
	}
	for _, i := range node.Interfaces {
		if i.Index == w.Index {
			w.MTU = virtual.OverlayMTU(w.From, i.MTU)
		}
	}
	if l.Host.Config.Overlay.Underlay == "" {
		return w, nil
	}
	if node.Moves, err = canMove(); err != nil {
		return w, err
	}
	return w, node.Stays(w.From)
}
