package table

import (
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/words/node"
)

// Deferred has settings that an interface shares with others. One of the others was in another lease
// when the interface's own lease ended. The entry outlives that lease.
type Deferred struct {
	Job    uint32          `json:"job"` // whose lease it was
	Run    string          `json:"run"`
	Of     []Member        `json:"of"` // the interface, then those that it shares the settings with
	Shared snapshot.Shared `json:"shared"`
}

// Member is an interface that shares the settings.
type Member struct {
	Interface link.ID `json:"interface"`
	Name      string  `json:"name"`
	HCA       node.ID `json:"hca,omitzero"` // the interface's HCA, if it has one
}

// same tells whether one lease left both entries for one interface. Another lease of the same number and run has read
// the settings at another time.
func (o Deferred) same(p Deferred) bool {
	return o.Job == p.Job && o.Run == p.Run && o.Shared.ID == p.Shared.ID && o.Shared.Taken == p.Shared.Taken
}

// Defer adds entries. An entry replaces the one that the same lease left for the same interface
// before its unwinding was killed.
func (t *Table) Defer(list []Deferred) {
	for _, o := range list {
		t.Deferred = append(slices.DeleteFunc(t.Deferred, o.same), o)
	}
}

// Owes tells whether an entry is in the table.
func (t *Table) Owes(o Deferred) bool { return slices.ContainsFunc(t.Deferred, o.same) }

// Drop removes an entry.
func (t *Table) Drop(o Deferred) {
	t.Deferred = slices.DeleteFunc(t.Deferred, o.same)
	if len(t.Deferred) == 0 {
		t.Deferred = nil
	}
}

// Claimed returns the claim of an HCA that has one of the interfaces, if there is one. A move takes
// away what such an interface has now. An HCA in slots moves nothing.
func (t *Table) Claimed(o Deferred) (Claim, bool) {
	for _, p := range o.Of {
		if c, held := t.Holder(p.HCA); held && p.HCA != (node.ID{}) && !c.HCA.IsSlot() {
			return c, true
		}
	}
	return Claim{}, false
}

// Sharers are the names of the interfaces that the first one shares with.
func (o Deferred) Sharers() (with []string) {
	for _, p := range o.Of[1:] {
		with = append(with, p.Name)
	}
	return with
}
