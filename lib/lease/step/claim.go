package step

import (
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/network"
	"gresnet/lib/state/table"
)

// Claim takes the job's HCAs, and its uplink's address, in the node table. Its undo frees what the
// table has of the lease. The journal says which HCAs these are, in case the table's entry does not read.
type Claim struct {
	Claims []table.Claim `json:"claims"`
	// Change is the table with the job's claims, under the node lock.
	Change *table.Change `json:"-"`
}

// Take has Do write a change, with the job's claims. An HCA in doubt may be of an earlier job with the
// same number and run.
func (s *Claim) Take(w *world.World, c *table.Change) {
	s.Change, s.Claims = c, nil
	for _, c := range c.Table.Of(w.Job, w.Run) {
		if !c.Doubt {
			s.Claims = append(s.Claims, table.Claim{HCA: c.HCA, Name: c.Name})
		}
	}
}

func (*Claim) Kind() string   { return "claim" }
func (*Claim) Object() string { return "" }
func (*Claim) HCA() node.ID   { return node.ID{} }

// Do writes the table.
func (s *Claim) Do(w *world.World) error { return commit(w, s.Change) }

// commit writes the table. If it cannot list the HCAs that jobs have for other programs, it says so.
func commit(w *world.World, c *table.Change) error {
	err := c.Commit()
	if c.Unlisted != nil {
		w.Notice("%s", c.Unlisted)
	}
	return err
}

// Undo frees the HCAs and the address. An HCA that is not back yet stays quarantined, and the
// address of an uplink that is still there stays taken. Undo comes last in a rollback, so it also
// removes the folders of RDMA-CM that other steps made for a moment.
func (s *Claim) Undo(w *world.World) error {
	if err := w.RDMACM().Clean(); err != nil {
		return err
	}
	change, err := w.Table.Begin(w.Context)
	if err != nil {
		return err
	}
	defer change.Close()
	aside := w.Dir.IsLost()
	change.Table.Release(w.Job, w.Run, table.OwnClaims(s.Claims, aside), w.Away)
	failed := Reopen(w, &change.Table)
	if !w.UplinkLeft && !aside { // a later lease of the job's number may have one
		failed = hint.Join(failed, network.FreeUplink(w, &change.Table))
	}
	return hint.Join(failed, commit(w, change))
}
