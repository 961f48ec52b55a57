package table_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/link"
	"gresnet/lib/link/route"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

func owe(job uint32, run, name string, hcas ...node.ID) table.Deferred {
	o := table.Deferred{Job: job, Run: run, Shared: snapshot.Shared{ID: link.ID{Address: name}, Name: name, HomeRoutes: []route.Route{{2, 16}}, Others: []snapshot.Other{{Index: 7, Name: "b"}}}}
	for _, id := range hcas {
		o.Of = append(o.Of, table.Member{Name: name, HCA: id})
	}
	return o
}

func TestWhatIsOwedStandsInTheTableUntilItIsSettled(t *testing.T) {
	first, again := owe(1, "0", "a", node.ID{}, hcaB.ID), owe(1, "0", "a", hcaA.ID, hcaB.ID)
	other, later := owe(1, "0", "b", hcaB.ID), owe(1, "1", "a", hcaB.ID)
	f := table.Folder(t.TempDir())
	change := func(do func(*table.Table)) table.Table {
		must(t, f.Update(t.Context(), func(now *table.Table) error { do(now); return nil }))
		now, err := f.Read()
		must(t, err)
		slices.SortFunc(now.Deferred, func(a, b table.Deferred) int { return strings.Compare(a.Run+a.Shared.Name, b.Run+b.Shared.Name) })
		return now
	}
	change(func(now *table.Table) { *now = full; now.Defer([]table.Deferred{first, other, later}) })
	now := change(func(now *table.Table) { now.Defer([]table.Deferred{again}) })
	if want := []table.Deferred{again, other, later}; !reflect.DeepEqual(now.Deferred, want) {
		t.Errorf("owed is %+v, wanted %+v", now.Deferred, want)
	}
	if c, claimed := now.Claimed(again); !claimed || c.HCA != hcaA.ID {
		t.Errorf("the claim is %+v, %v", c, claimed)
	}
	if c, claimed := now.Claimed(first); claimed {
		t.Errorf("of what no HCA has, or is free, the claim is %+v", c)
	}
	slot := hcaA.ID
	slot.Slot = "1"
	if c, claimed := (&table.Table{Claims: []table.Claim{{HCA: slot, Job: 3}}}).Claimed(again); claimed {
		t.Errorf("a job in a slot, which moves nothing, keeps back what is owed: %+v", c)
	}
	for _, o := range []table.Deferred{other, later, first} {
		now = change(func(now *table.Table) { now.Drop(o) })
	}
	if text(t, now) != text(t, full) {
		t.Errorf("when all is settled, the table is %+v", now)
	}
}
