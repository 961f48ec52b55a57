package step

import (
	"time"

	"gresnet/lib/hint"
	"gresnet/lib/network"
	"gresnet/lib/node"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// Claim takes the job's HCAs, and its uplink's address, in the node table. Its note is a copy of
// what the table then has of them: gresnet can make each anew from the other.
type Claim struct {
	HCAs   []node.HCA    `json:"hcas"`
	Claims []table.Claim `json:"claims"`
	// Made is when the HCAs were claimed, by the time since the node's boot.
	Made   time.Duration `json:"made,omitempty"`
	Uplink *table.Uplink `json:"uplink,omitempty"`
	// Forwarding lists the interfaces that forward for this job's uplink and those of others.
	Forwarding []table.Forwarding `json:"forwarding,omitempty"`
	// Shared lists the HCAs that this job and others have slots of.
	Shared []table.Shared `json:"shared,omitempty"`
	// Change is the table with the job's claims, under the node lock.
	Change *table.Change `json:"-"`
	// Freed is called when Undo has freed all, under the node lock still. Who makes the table anew
	// from the notes of all claims does not find this one then. It may be nil.
	Freed func() error `json:"-"`
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

// Undo frees the HCAs and the address. An HCA that is not home yet stays quarantined, and the
// address of an uplink that is still there stays taken. Undo comes last in an unwinding, so it also
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
	change.Table.Release(w.Job, w.Run, table.Noted(s.Claims, w.Dir.IsLost()), w.Away)
	failed := Reopen(w, &change.Table)
	if !w.UplinkLeft {
		failed = hint.Join(failed, network.FreeUplink(w, &change.Table, w.Job, w.Run))
	}
	if err := commit(w, change); err != nil {
		return hint.Join(failed, err)
	}
	if failed == nil && s.Freed != nil {
		// The lease is about to go: that its claim is not struck would matter only until then.
		if err := s.Freed(); err != nil {
			w.Notice("%s", err)
		}
	}
	return failed
}
