package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/slurm"
	"gresnet/lib/state/table"
)

// Pool returns the pool of the node's uplinks, or nil if jobs have none.
func (l *Look) Pool() (*jobnet.Pool, error) {
	moves, err := l.moves()
	if err != nil {
		return nil, err
	}
	return l.pool(moves, l.Host.Slurm.Conf)
}

// PoolFor returns the pool for a job, or nil if the job stays in the node's network, or if uplinks are automatic and
// the node has no way out.
func (l *Look) PoolFor(j job.Job, access config.Access) (*jobnet.Pool, error) {
	if access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	moves, err := l.moves()
	if err != nil {
		return nil, err
	}
	pool, err := l.pool(moves, j.Conf)
	if errors.Is(err, jobnet.ErrNoPorts) {
		return nil, err
	}
	if err != nil && l.Host.Config.Uplink.Kind == config.UplinkAuto {
		l.Host.Notice(l.World.Job, "no way out: %s", err)
		return nil, nil
	}
	return pool, err
}

func (l *Look) pool(moves func(link.Interface) bool, said string) (*jobnet.Pool, error) {
	if !l.Host.Config.Uplink.On() {
		return nil, nil
	}
	var pool jobnet.Pool
	err := l.World.OnHost(func(v *scan.View) error {
		n, err := jobnet.ReadHost(v.Link.Conn)
		if err != nil {
			return err
		}
		if l.Host.Config.Uplink.Kind == config.UplinkAuto {
			if err := n.ReadWays(v.Link.Conn); err != nil {
				return err
			}
			conf, err := jobnet.ReadSlurm(said)
			if err != nil {
				return err
			}
			if err := n.ReadPorts(l.Host.Config.Overlay.Services, conf); err != nil {
				return err
			}
		}
		n.Moves = moves
		pool, err = jobnet.NewPool(l.Host.Config.Uplink, n)
		return err
	})
	return &pool, err
}

// moves returns CanMove's function for automatic uplinks. Other uplinks do not ask, and it is nil.
func (l *Look) moves() (func(link.Interface) bool, error) {
	if l.Host.Config.Uplink.Kind != config.UplinkAuto {
		return nil, nil
	}
	return l.CanMove()
}

// canMove returns a function that tells whether a job can get an interface with an HCA.
func (n *Host) canMove() (func(link.Interface) bool, error) {
	m, err := n.Mapping()
	return func(i link.Interface) bool {
		return slices.ContainsFunc(m, func(e gres.Entry) bool { return jobnet.HasInterface(e.HCA, i) && (!e.Keep || i.ID.Kind == "ipoib") })
	}, err
}

// PickUplink takes an address for a job in the table, if there is a pool.
func PickUplink(t *table.Table, pool *jobnet.Pool, job uint32, run string) error {
	if pool == nil {
		return nil
	}
	a, err := pool.Free(t.Addresses())
	if err != nil {
		return err
	}
	t.Uplinks = append(t.Uplinks, table.Uplink{Type: pool.Type(), Address: a, Job: job, Run: run, Auto: pool.Auto})
	return nil
}

// NameTaken returns the error for an interface, of [uplink] or [overlay], whose name an HCA's
// interface has.
func NameTaken(table, name string) error {
	err := fmt.Errorf("%s: its name %s is that of an HCA's interface, which jobs have, too", table, name)
	return hint.With(err, fmt.Sprintf("GN201 take another name in [%s]", table))
}

// Network returns the network between the job's nodes, or nil if the job has none or stays in the
// node's network.
func (l *Look) Network(ctx context.Context, j job.Job, access config.Access) (*jobnet.Network, error) {
	c := l.Host.Config.Overlay
	if !c.On() || access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	defer l.Host.Time("find the job's other nodes")()
	var n *jobnet.Network
	err := l.World.OnHost(func(v *scan.View) error {
		node, err := jobnet.ReadHost(v.Link.Conn)
		if err != nil {
			return err
		}
		n, err = jobnet.NewNetwork(ctx, c, j, jobnet.World{
			Slurm: func() (slurm.Conf, error) { return jobnet.ReadSlurm(j.Conf) }, Look: jobnet.Resolve,
			Way:  func(to netip.Addr) (jobnet.Way, error) { return l.way(node, to) },
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
func (l *Look) way(node jobnet.Host, to netip.Addr) (w jobnet.Way, err error) {
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
	if node.Moves, err = l.CanMove(); err != nil {
		return w, err
	}
	return w, node.Stays(w.From)
}
