package table

import (
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/node"
)

// Owed is what an interface shared with others of which another lease had one when its
// own lease ended. It outlives that lease.
type Owed struct {
	Job    uint32    `json:"job"` // whose lease it was
	Run    string    `json:"run"`
	Of     []Member  `json:"of"` // the interface, and then those that it shares with
	Shared link.Owed `json:"shared"`
}

// Member is an interface that has a part in what is owed.
type Member struct {
	Interface link.ID `json:"interface"`
	Name      string  `json:"name"`
	HCA       node.ID `json:"hca,omitzero"` // whose it is, if it is an HCA's
}

// same tells what one lease left of one interface.
func (o Owed) same(p Owed) bool {
	return o.Job == p.Job && o.Run == p.Run && o.Shared.ID == p.Shared.ID
}

// Defer adds what is owed. What the same lease left of the same interface before, when
// its unwinding was killed, is replaced.
func (t *Table) Defer(list []Owed) {
	for _, o := range list {
		t.Owed = append(slices.DeleteFunc(t.Owed, o.same), o)
	}
}

// Drop strikes what was paid, or cannot be any more.
func (t *Table) Drop(o Owed) {
	t.Owed = slices.DeleteFunc(t.Owed, o.same)
	if len(t.Owed) == 0 {
		t.Owed = nil
	}
}

// Claimed is a party's claim: what that has now goes with a move.
func (t *Table) Claimed(o Owed) (Claim, bool) {
	for _, p := range o.Of {
		if c, held := t.Holder(p.HCA); held && p.HCA != (node.ID{}) {
			return c, true
		}
	}
	return Claim{}, false
}

// Sharers are the names of the interfaces that the first one shares with.
func (o Owed) Sharers() (with []string) {
	for _, p := range o.Of[1:] {
		with = append(with, p.Name)
	}
	return with
}
