package table_test

import (
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/state/table"
)

func TestAnHCAAndASlotOfItAreNeverTwoJobs(t *testing.T) {
	a := node.ID{GUID: "a", PCI: "0000:3b:00.0"}
	slot := func(n string) node.ID { return node.ID{GUID: "a", PCI: "0000:3b:00.0", Slot: n} }
	for _, c := range []struct {
		claimed, asked node.ID
		held           bool
	}{
		{a, a, true},
		{a, slot("0"), true},
		{slot("0"), a, true},
		{slot("0"), slot("0"), true},
		{slot("0"), slot("1"), false},
		{node.ID{GUID: "b", Slot: "0"}, slot("0"), false},
		{node.ID{GUID: "b"}, slot("0"), false},
	} {
		held := table.Table{Claims: []table.Claim{{HCA: c.claimed, Job: 1}}}
		if _, is := held.Holder(c.asked); is != c.held {
			t.Errorf("%s is claimed, %s is held: %t", c.claimed, c.asked, is)
		}
	}
}
