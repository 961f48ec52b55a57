package lock_test

import (
	"bytes"
	"reflect"
	"testing"

	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/node"
)

func TestWhatIsOwedStandsInTheTableUntilItIsSettled(t *testing.T) {
	if bytes.Contains(lock.Format(full), []byte("owed")) {
		t.Error("a table in which nothing is owed is another than before")
	}
	owe := func(job uint32, run, name string, hcas ...node.ID) lock.Owed {
		o := lock.Owed{Job: job, Run: run, Shared: link.Owed{ID: link.ID{Address: name}, Name: name, HomeRoutes: []link.Message{{2, 16}}, Others: []link.Other{{Index: 7, Name: "b"}}}}
		for _, id := range hcas {
			o.Of = append(o.Of, lock.Member{Name: name, HCA: id})
		}
		return o
	}
	first, again := owe(1, "0", "a", node.ID{}, hcaB.ID), owe(1, "0", "a", hcaA.ID, hcaB.ID)
	other, later := owe(1, "0", "b", hcaB.ID), owe(1, "1", "a", hcaB.ID)
	table := full
	table.Defer([]lock.Owed{first, other, later})
	table.Defer([]lock.Owed{again})
	if want := []lock.Owed{other, later, again}; !reflect.DeepEqual(table.Owed, want) {
		t.Errorf("owed is %+v, wanted %+v", table.Owed, want)
	}
	read, err := lock.Parse(lock.Format(table))
	if err != nil || !reflect.DeepEqual(read, table) {
		t.Errorf("%+v is written and read as %+v, %v", table, read, err)
	}
	if c, claimed := table.Claimed(again); !claimed || c.HCA != hcaA.ID {
		t.Errorf("the claim is %+v, %v", c, claimed)
	}
	if c, claimed := table.Claimed(first); claimed {
		t.Errorf("of what no HCA has, or is free, the claim is %+v", c)
	}
	for _, o := range []lock.Owed{other, later, first} {
		table.Drop(o)
	}
	if !reflect.DeepEqual(table, full) {
		t.Errorf("when all is settled, the table is %+v", table)
	}
}
