package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/job"
	"gresnet/lib/link"
	"gresnet/lib/netns"
	"gresnet/lib/nft"
	"gresnet/lib/node"
	"gresnet/lib/overlay"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// pool is where jobs get their uplinks from; nil if they have none. moves tells which of the
// node's interfaces can be a job's.
func (l *look) pool(moves func(link.Interface) bool) (*uplink.Pool, error) {
	if !l.node.Config.Uplink.On() {
		return nil, nil
	}
	var pool uplink.Pool
	err := l.world.OnHost(func(v *scan.View) error {
		n, err := uplink.Look(v.Link)
		if err != nil {
			return err
		}
		n.Moves = moves
		pool, err = uplink.New(l.node.Config.Uplink, n)
		return err
	})
	return &pool, err
}

// poolFor is the pool for a job that has a network of its own; nil for one that is in the node's.
func (l *look) poolFor(access config.Access) (*uplink.Pool, error) {
	if access.Isolation == config.IsolateDevices {
		return nil, nil
	}
	moves, err := l.node.moves()
	if err != nil {
		return nil, err
	}
	return l.wayOut(moves)
}

// wayOut is the pool for a job. Where the site does not say what jobs are to reach, and the node does not
// let them out, they go without.
func (l *look) wayOut(moves func(link.Interface) bool) (*uplink.Pool, error) {
	pool, err := l.pool(moves)
	if err != nil && l.node.Config.Uplink.Kind == config.UplinkAuto {
		l.node.notice(l.world.Job, "no way out: %s", err)
		return nil, nil
	}
	return pool, err
}

// moves tells which interfaces of the node are those of HCAs that jobs get.
func (n *Host) moves() (func(link.Interface) bool, error) {
	if n.Config.Uplink.Kind != config.UplinkAuto {
		return nil, nil // who else would ask
	}
	return n.canMove()
}

func (n *Host) canMove() (func(link.Interface) bool, error) {
	m, err := n.mapping()
	return func(i link.Interface) bool {
		return slices.ContainsFunc(m, func(e gres.Entry) bool { return uplink.HasInterface(e.HCA, i) && (!e.Keep || i.ID.Kind == "ipoib") })
	}, err
}

// Uplinks is where the node's jobs would get their uplinks from now, for one who
// only wants to know; nil if they have none.
func (n *Host) Uplinks() (*uplink.Pool, error) {
	looking, done, err := n.lookFor(context.Background(), 0)
	if err != nil {
		return nil, err
	}
	defer done()
	moves, err := n.moves()
	if err != nil {
		return nil, err
	}
	if err := n.nameTaken("uplink", n.Config.Uplink.Name); err != nil && n.Config.Uplink.On() {
		return nil, err
	}
	return looking.pool(moves)
}

// lookFor opens a look at the node for a job, which has a lease or has none.
func (n *Host) lookFor(ctx context.Context, job uint32) (l *look, done func(), err error) {
	host, err := netns.Current()
	if err != nil {
		return nil, nil, err
	}
	w := &step.World{Given: step.Given{
		Host: host, Sys: n.Sys, Dev: n.Dev, Dir: n.dir(job), Job: job, Context: ctx, Table: n.table(), Locks: n.locks(),
	}}
	return &look{node: n, world: w}, func() { w.Close(); host.Close() }, nil
}

// pickUplink takes an address for a job in the table, if jobs have uplinks.
func pickUplink(t *table.Table, pool *uplink.Pool, job uint32, run string) error {
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

// claimUplink takes an address for a job in the table, if jobs have uplinks, and notes what it needs of the
// node. What the site did not ask for in so many words, no job's prolog fails for.
func (l *open) claimUplink(t *table.Table, pool *uplink.Pool, j job.Job, claim *step.Claim) error {
	before := t.Forwarding
	err := pickUplink(t, pool, j.ID, j.Run.String())
	if err == nil {
		claim.Forwarding, err = l.holdForwarding(t, pool)
	}
	if err == nil || !pool.Auto {
		return err
	}
	t.FreeUplink(j.ID, j.Run.String())
	t.Forwarding = before
	l.node.notice(j.ID, "no way out: %s", err)
	return nil
}

// holdForwarding notes what a job's way out needs of the node, if it has one.
func (l *open) holdForwarding(t *table.Table, pool *uplink.Pool) (held []table.Forwarding, err error) {
	if pool == nil || !pool.Auto {
		return nil, nil
	}
	err = l.world.OnHost(func(v *scan.View) error {
		held, err = step.HoldForwarding(v, t, pool.Leads)
		return err
	})
	return held, err
}

// uplinkStep is the step that makes an uplink; nil if the job has none.
func uplinkStep(pool *uplink.Pool, u *table.Uplink, uid uint32, forwarding []table.Forwarding) *step.Uplink {
	if pool == nil || u == nil {
		return nil
	}
	return &step.Uplink{Type: u.Type, Address: u.Address, NAT: pool.NAT, Pool: *pool, UID: uid, Forwarding: forwarding}
}

// apart holds the names of interfaces that are made for a job against those of its HCAs' that come to it.
func (l *open) apart(s *step.Uplink, network *overlay.Network, come []*step.Settings) error {
	for _, c := range come {
		names := append([]string{c.Settings.Name}, c.Settings.AltNames...)
		if s != nil && slices.Contains(names, s.Pool.Name) {
			s.Clash = nameTaken("uplink", s.Pool.Name)
		}
		if network != nil && slices.Contains(names, network.Link.Name) {
			return nameTaken("overlay", network.Link.Name)
		}
	}
	return nil
}

func nameTaken(table, name string) error {
	err := fmt.Errorf("%s: its name %s is that of an HCA's interface, which jobs have, too", table, name)
	return hint.With(err, fmt.Sprintf("take another name in [%s]", table))
}

// nameTaken is an error if an interface has a name that jobs can get.
func (n *Host) nameTaken(table, name string) error {
	m, err := n.mapping()
	if err != nil {
		return nil // which others say
	}
	for _, e := range m {
		if !e.Keep && slices.ContainsFunc(e.HCA.Ports, func(p node.Port) bool { return p.Interface == name }) {
			return nameTaken(table, name)
		}
	}
	return nil
}

// letIn has what comes to the node reach a job that has the node to itself, where the site wants it.
func (l *open) letIn(s *step.Uplink, j job.Job) {
	c := l.node.Config
	if s == nil || !c.Uplink.Inbound {
		return
	}
	cpus, err := sysfs.CPUs(l.node.Sys)
	if !j.Share.Whole(cpus) { // where the CPUs have to be known and are not, too
		if err != nil {
			l.node.notice(j.ID, "nobody beyond the node reaches the job: %s", err)
		}
		return
	}
	s.Inbound = &nft.Inbound{Kept: c.Overlay.Services}
	for _, i := range s.Pool.Leads {
		s.Inbound.Leads = append(s.Inbound.Leads, i.Index)
	}
}

// had is the uplink that a job has in the end.
func (l *open) had(s *step.Uplink, u *table.Uplink) *table.Uplink {
	if s != nil && s.Lacking == nil && s.Closed != nil {
		l.node.notice(l.world.Job, "nobody beyond the node reaches the job: %s", s.Closed)
	}
	if s == nil || s.Lacking == nil {
		return u
	}
	l.node.notice(l.world.Job, "no way out: %s", s.Lacking)
	return nil
}

// uplinkFrom is an uplink of which the table alone speaks.
func uplinkFrom(u table.Uplink) *step.Uplink {
	return &step.Uplink{Type: u.Type, Address: u.Address, NAT: u.Type == config.UplinkVeth}
}

// dropUplink removes the uplink of a job whose lease is gone, and frees its address.
func (n *Host) dropUplink(ctx context.Context, u table.Uplink) error {
	l, done, err := n.lookFor(ctx, u.Job)
	if err != nil {
		return err
	}
	defer done()
	l.world.Run = u.Run
	s := uplinkFrom(u)
	if err := s.Undo(l.world); err != nil {
		return remains(err)
	}
	var failed error
	err = n.table().Update(ctx, func(t *table.Table) error {
		failed = l.world.FreeUplink(t, u.Job, u.Run)
		return nil
	})
	return errors.Join(failed, err)
}

// dropUplinks does so for all that a job has.
func (n *Host) dropUplinks(ctx context.Context, id uint32, t table.Table) error {
	var failed []error
	for _, u := range t.Uplinks {
		if u.Job == id {
			failed = append(failed, n.dropUplink(ctx, u))
		}
	}
	return errors.Join(failed...)
}
