package lease

import (
	"context"
	"slices"

	"gresnet/lib/gres"
	"gresnet/lib/inventory"
	"gresnet/lib/job"
	"gresnet/lib/node"
	"gresnet/lib/plan"
	"gresnet/lib/scan"
	"gresnet/lib/source"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// Inventory makes an inventory of the node as a prolog would meet it now, and changes
// nothing. drift is why the mapping does not hold: it then lacks GRES.
func (n *Host) Inventory() (s inventory.Inventory, drift error, err error) {
	t, err := n.known()
	if err != nil {
		return inventory.Inventory{}, nil, err
	}
	return n.inventoryOf(t, func(node.HCA) bool { return false })
}

// inventoryOf is the inventory of a table, with a mapping that lacks some HCAs.
func (n *Host) inventoryOf(t table.Table, lacks func(node.HCA) bool) (s inventory.Inventory, drift error, err error) {
	top, err := n.topology(t.HCAs)
	if err != nil {
		return inventory.Inventory{}, nil, err
	}
	m, drift := gres.Map(n.Config, slices.DeleteFunc(slices.Clone(t.HCAs), lacks))
	if drift == nil {
		if m, err = top.Serve(m, nil); err != nil {
			return inventory.Inventory{}, nil, err
		}
		drift = m.Drift()
	}
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return inventory.Inventory{}, nil, err
	}
	defer v.Close()
	s, err = inventory.Take(v, n.Sys, inventory.Input{Table: t, Mapping: m, Topology: top})
	return s, drift, err
}

// known is the node table with what the node has besides, as the next claim
// would write it.
func (n *Host) known() (table.Table, error) {
	t, err := n.table().Read()
	if err != nil {
		return table.Table{}, err
	}
	err = n.look(&t)
	return t, err
}

// Ask asks the site's sources what a job is entitled to, for one who only wants to know.
func (n *Host) Ask(ctx context.Context, j job.Job) (wants []gres.Want, notes []string, err error) {
	return source.Ask(ctx, j, n.Config, n.local(n.mapping))
}

// Plan is what a prolog would do for a job that is entitled to something: the
// entries that it would claim, and its steps in their order. Nothing is done,
// no lock is taken: meanwhile another job may claim what is free now.
func (n *Host) Plan(ctx context.Context, j job.Job, wants []gres.Want) ([]gres.Entry, []step.Step, error) {
	t, err := n.known()
	if err != nil {
		return nil, nil, err
	}
	p, err := n.pick(&t, j, wants)
	if err != nil || len(p.entries) == 0 {
		return nil, nil, err
	}
	looking, done, err := n.lookFor(ctx, j.ID)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	access := n.access(j)
	pool, err := looking.poolFor(access)
	if err != nil {
		return nil, nil, err
	}
	if err := pickUplink(&t, pool, j.ID, j.Run.String()); err != nil {
		return nil, nil, err
	}
	up := uplinkStep(pool, t.Uplink(j.ID, j.Run.String()), j.UID, nil)
	mode, hcas, err := looking.read(j, access, p)
	if err != nil {
		return nil, nil, err
	}
	network, err := looking.network(ctx, j, access, n.canMove)
	if err != nil {
		return nil, nil, err
	}
	return p.entries, append([]step.Step{&step.Claim{}}, plan.Take(j, mode, access, up, overlayStep(network, n.Config.Overlay, up), hcas)...), nil
}
