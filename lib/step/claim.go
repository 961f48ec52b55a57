package step

import (
	"gresnet/lib/hint"
	"gresnet/lib/node"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// Claim takes the job's HCAs, and its uplink's address, in the node lock file. Its note is a copy of what
// the file has of them then: each can be made anew from the other.
type Claim struct {
	HCAs   []node.HCA    `json:"hcas"`
	Claims []table.Claim `json:"claims"`
	Uplink *table.Uplink `json:"uplink,omitempty"`
	// Forwarding is what the uplink needs of the node, with other jobs'.
	Forwarding []table.Forwarding `json:"forwarding,omitempty"`
	// Change is the table with the job's claims, under the node lock.
	Change *table.Change `json:"-"`
}

func (*Claim) Kind() string   { return "claim" }
func (*Claim) Object() string { return "" }
func (*Claim) HCA() node.ID   { return node.ID{} }

// Do writes the table.
func (s *Claim) Do(*world.World) error { return s.Change.Commit() }

// Undo frees the HCAs and the address. An HCA that is not home yet stays
// quarantined, the address of an uplink that is there still stays taken. It is what is
// undone last, and so what looks after folders of RDMA-CM that were wanted for a moment.
func (s *Claim) Undo(w *world.World) error {
	if err := w.RDMACM().Clean(); err != nil {
		return err
	}
	var failed error
	err := w.Table.Update(w.Context, func(t *table.Table) error {
		t.Release(w.Job, w.Run, w.Away)
		if !w.UplinkLeft {
			failed = FreeUplink(w, t, w.Job, w.Run)
		}
		return nil
	})
	return hint.Join(failed, err)
}
