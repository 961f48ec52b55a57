package host

import (
	"cmp"
	"errors"
	"fmt"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/state/table"
)

// Picked is what a job gets of the node's mapping, and what was looked at to find it.
type Picked struct {
	Entries  []gres.Entry
	mapping  gres.Mapping
	topology gres.Topology // as far as near needed it
	Passed   []gres.Holding
}

// Pick claims HCAs for a job in the table.
func (n *Host) Pick(t *table.Table, j job.Job, wants []gres.Want, u *scan.Users) (p Picked, err error) {
	if p.mapping, err = n.Mapped(t); err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	near, topology, err := n.near(j, p.mapping, wants)
	if err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	p.topology = topology
	if n.Config.Slurm.Index == config.IndexNear {
		wants = gres.Nearer(wants, p.mapping, heldOrUsed(t, u), near)
	}
	p.Entries, err = gres.Choose(wants, p.mapping, heldOrUsed(t, u), near)
	p.Passed = gres.PassedOver(wants, p.mapping, heldOrUsed(t, u))
	if err := cmp.Or(u.Err, err); err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	for i, e := range p.Entries {
		e = e.Number(HoldersIn(t))
		p.Entries[i] = e
		t.Claims = append(t.Claims, table.Claim{
			HCA: e.HCA.ID, Name: e.HCA.Name,
			Job: j.ID, Run: j.Run.String(), UID: j.UID, Since: n.Now(),
		})
	}
	return p, claimFault(j.ID, n.share(t, p.Entries))
}

// share records in the table who can open the device nodes of HCAs that jobs get slots of. It does so before
// the first of these jobs restricts the nodes.
func (n *Host) share(t *table.Table, entries []gres.Entry) error {
	for _, e := range entries {
		if e.Slot == nil || t.SharedOf(e.HCA.ID) != nil {
			continue
		}
		shared, err := n.readShared(e.HCA)
		if err != nil {
			return err
		}
		t.Shared = append(t.Shared, shared)
	}
	return nil
}

func (n *Host) readShared(h node.HCA) (table.Shared, error) {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return table.Shared{}, err
	}
	defer v.Close()
	d, err := v.Find(h.ID)
	if err != nil {
		return table.Shared{}, err
	}
	if err := v.MAD(&d); err != nil {
		return table.Shared{}, err
	}
	a, err := n.readAccess(d)
	if err != nil {
		return table.Shared{}, err
	}
	for i := range a.Nodes {
		a.Nodes[i].Attributes = nil // they stay with the nodes, which no slot has made again
	}
	return table.Shared{HCA: d.ID, Name: d.Name, Nodes: a.Nodes}, nil
}

// claimFault names the job whose claim failed. A refusal is the job's own to read.
func claimFault(id uint32, err error) error {
	var refusal *gres.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("claim HCAs for job %d: %w", id, err)
}

// HoldersIn says who holds what, as a table has it.
func HoldersIn(t *table.Table) func(node.ID) (gres.Holder, bool) {
	return func(id node.ID) (gres.Holder, bool) {
		c, held := t.Holder(id)
		return gres.Holder{Job: c.Job, Since: c.Since, Quarantined: c.Quarantined}, held
	}
}

// Users begins a look at the processes that use free HCAs.
func (n *Host) Users() (*scan.Users, error) { return scan.OpenUsers(n.Sys) }

// heldOrUsed returns a function that says who holds an HCA by the table, or whose process uses it.
func heldOrUsed(t *table.Table, u *scan.Users) func(node.ID) (gres.Holder, bool) {
	held := HoldersIn(t)
	return func(id node.ID) (gres.Holder, bool) {
		if by, is := held(id); is {
			return by, true
		}
		if t.SharedOf(id) != nil && id.IsSlot() {
			return gres.Holder{}, false // processes of the jobs that have its other slots use it
		}
		by := u.Of(id)
		return gres.Holder{User: by}, by != ""
	}
}
