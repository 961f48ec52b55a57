package lease

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
)

// wholeLease is the journal of a lease of A, B and C.
func wholeLease() (all []Entry) {
	for i, s := range leasetest.Steps() {
		all = append(all, Entry{Step: s, Number: i + 1})
	}
	return all
}

// without returns the entries but those of some numbers.
func without(lost ...int) []Entry {
	return slices.DeleteFunc(wholeLease(), func(s Entry) bool { return slices.Contains(lost, s.Number) })
}

func TestTheHCAsOfADamagedLeaseAreThoseThatTheTableAndItsEntriesHave(t *testing.T) {
	claimed := table.Table{Claims: []table.Claim{{HCA: leasetest.A, Name: "A", Job: 1, Run: "0"}, {HCA: leasetest.B, Job: 2, Run: "0"}}}
	for _, c := range []struct {
		entries []Entry
		table   table.Table
		want    string
	}{
		{without(5), table.Table{}, "a b c"},
		{nil, claimed, "a"},
		{without(1, 3, 4, 8, 11), table.Table{}, "b c"}, // nothing is about A
		{without(1, 3, 4, 8, 11), claimed, "a b c"},
	} {
		for _, others := range []map[node.ID]bool{nil, {leasetest.C: true}} {
			var ids []node.ID
			for _, claim := range damageOf([]string{"a line"}, c.entries, c.table, 1, "0", others).claims {
				ids = append(ids, claim.HCA)
			}
			slices.SortFunc(ids, node.Compare)
			want := c.want
			if others != nil {
				want = strings.TrimSuffix(want, " c")
			}
			if got := leasetest.GUIDs(ids); got != want {
				t.Errorf("its HCAs are %q, wanted %q", got, want)
			}
		}
	}
}

func TestWhatALeaseHasAsAWholeIsUndoneWithoutItsEntry(t *testing.T) {
	slot := leasetest.A
	slot.Slot = "1"
	uplink := table.Table{Uplinks: []table.Uplink{{Type: "veth", Address: netip.MustParseAddr("10.8.0.1"), Job: 1, Run: "0"}}}
	for _, c := range []struct {
		entries []Entry
		table   table.Table
		want    string
	}{
		{wholeLease(), table.Table{}, ""},
		{without(2, 13, 14), table.Table{}, "overlay, devices, namespace"},
		{without(1), table.Table{}, "claim"},
		{wholeLease(), uplink, "uplink veth 10.8.0.1"},
		{wholeLease(), table.Table{Claims: []table.Claim{{HCA: slot, Job: 1, Run: "0"}}}, "child the interfaces of slots"},
	} {
		var added []string
		for _, s := range damageOf(nil, c.entries, c.table, 1, "0", nil).added(c.entries) {
			added = append(added, strings.TrimSpace(s.Kind()+" "+s.Object()))
		}
		if got := strings.Join(added, ", "); got != c.want {
			t.Errorf("added are %q, wanted %q", got, c.want)
		}
	}
}

func TestAnInterfaceWithSettingsIsReturnedWithoutTheEntryOfItsMove(t *testing.T) {
	entries := without(12)
	added := unmoved(entries, entries)
	if len(added) != 1 || added[0].Kind() != "link" || added[0].Object() != "roceB" {
		t.Errorf("added are %+v", added)
	}
}

func TestAPersonReadsWhichHCAsOfADamagedLeaseNoJobGets(t *testing.T) {
	d := damageOf([]string{"line 3: its checksum does not agree"}, []Entry{{Step: &step.Claim{Claims: []table.Claim{{HCA: leasetest.A, Name: "mlx5_0"}}}}}, table.Table{}, 1, "0", nil)
	if got, want := d.quarantines(map[node.ID]string{leasetest.A: d.reason()}), "mlx5_0 is quarantined: line 3: its checksum does not agree"; got != want {
		t.Errorf("it says %q, wanted %q", got, want)
	}
}
