package lease

import (
	"maps"
	"slices"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/state/table"
)

func TestTheVFsOfLeasesAreKnownByTheirPFAndNumberAndLostOnesAreNoLeases(t *testing.T) {
	const pf = "0000:3b:00.0"
	claims := []table.Claim{
		{HCA: node.ID{PCI: pf, VF: "3"}, Job: 1}, {HCA: node.ID{PCI: pf, VF: "11"}, Quarantined: "it hangs"},
		{HCA: node.ID{PCI: pf, VF: "5"}, Job: 2}, {HCA: node.ID{PCI: "0000:3b:00.1", VF: "4"}}, {HCA: node.ID{PCI: pf, GUID: "0002:c903:00ab:0001"}},
	}
	h := config.HCA{Part: "vf", Count: 16, Match: config.Match{Key: "pci", Value: pf}}
	lost := func(c table.Claim) bool { return c.Job == 2 }
	if got := slices.Sorted(maps.Keys(takenOf(&table.Table{Claims: claims}, h, lost))); !slices.Equal(got, []int{3, 11}) {
		t.Errorf("they are %v", got)
	}
}
