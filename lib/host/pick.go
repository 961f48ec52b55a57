package host

import (
	"cmp"
	"errors"
	"fmt"

	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/node"
	"gresnet/lib/table"
)

// Picked is what a job gets of the node's mapping, and what was looked at to find it.
type Picked struct {
	Entries  []gres.Entry
	mapping  gres.Mapping
	topology gres.Topology // as far as near needed it
	Passed   []gres.Holding
}

// Pick claims HCAs for a job in the table.
func (n *Host) Pick(t *table.Table, j job.Job, wants []gres.Want) (p Picked, err error) {
	if p.mapping, err = n.Mapped(t); err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	near, topology, err := n.near(j, p.mapping, wants)
	if err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	p.topology = topology
	u, err := n.Users()
	if err != nil {
		return Picked{}, claimFault(j.ID, err)
	}
	defer u.Close()
	if p.Entries, err = gres.Choose(wants, p.mapping, u.HeldOrUsed(t), near); err != nil || u.Err != nil {
		return Picked{}, claimFault(j.ID, cmp.Or(u.Err, err))
	}
	p.Passed = gres.PassedOver(wants, p.mapping, u.HeldOrUsed(t))
	if u.Err != nil {
		return Picked{}, claimFault(j.ID, u.Err)
	}
	for _, e := range p.Entries {
		t.Claims = append(t.Claims, table.Claim{
			HCA: e.HCA.ID, Name: e.HCA.Name, Gres: e.Gres, Index: e.Index,
			Job: j.ID, Run: j.Run.String(), UID: j.UID, Since: n.Now(),
		})
	}
	return p, nil
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
