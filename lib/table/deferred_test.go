package table_test

import (
	"bytes"
	"reflect"
	"testing"

	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/route"
	"gresnet/lib/snapshot"
	"gresnet/lib/table"
)

func TestWhatIsOwedStandsInTheTableUntilItIsSettled(t *testing.T) {
	if bytes.Contains(table.Format(full), []byte("owed")) {
		t.Error("a table in which nothing is owed is another than before")
	}
	owe := func(job uint32, run, name string, hcas ...node.ID) table.Deferred {
		o := table.Deferred{Job: job, Run: run, Shared: snapshot.Shared{ID: link.ID{Address: name}, Name: name, HomeRoutes: []route.Route{{2, 16}}, Others: []snapshot.Other{{Index: 7, Name: "b"}}}}
		for _, id := range hcas {
			o.Of = append(o.Of, table.Member{Name: name, HCA: id})
		}
		return o
	}
	first, again := owe(1, "0", "a", node.ID{}, hcaB.ID), owe(1, "0", "a", hcaA.ID, hcaB.ID)
	other, later := owe(1, "0", "b", hcaB.ID), owe(1, "1", "a", hcaB.ID)
	now := full
	now.Defer([]table.Deferred{first, other, later})
	now.Defer([]table.Deferred{again})
	if want := []table.Deferred{other, later, again}; !reflect.DeepEqual(now.Deferred, want) {
		t.Errorf("owed is %+v, wanted %+v", now.Deferred, want)
	}
	read, err := table.Parse(table.Format(now))
	if err != nil || !reflect.DeepEqual(read, now) {
		t.Errorf("%+v is written and read as %+v, %v", now, read, err)
	}
	if c, claimed := now.Claimed(again); !claimed || c.HCA != hcaA.ID {
		t.Errorf("the claim is %+v, %v", c, claimed)
	}
	if c, claimed := now.Claimed(first); claimed {
		t.Errorf("of what no HCA has, or is free, the claim is %+v", c)
	}
	for _, o := range []table.Deferred{other, later, first} {
		now.Drop(o)
	}
	if !reflect.DeepEqual(now, full) {
		t.Errorf("when all is settled, the table is %+v", now)
	}
}
