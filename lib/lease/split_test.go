package lease

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"gresnet/lib/node"
	"gresnet/lib/table"
)

func TestTheVFsOfLeasesAreKnownByTheirPFAndNumberAndLostOnesAreNoLeases(t *testing.T) {
	const pf = "0000:3b:00.0"
	claims := []table.Claim{
		{HCA: node.ID{PCI: pf, VF: "3"}, Job: 1}, {HCA: node.ID{PCI: pf, VF: "11"}, Quarantined: "it hangs"},
		{HCA: node.ID{PCI: pf, VF: "5"}, Job: 2}, {HCA: node.ID{PCI: "0000:3b:00.1", VF: "4"}}, {HCA: node.ID{PCI: pf, GUID: "0002:c903:00ab:0001"}},
	}
	lost := func(c table.Claim) bool { return c.Job == 2 }
	if got := slices.Sorted(maps.Keys(takenOf(&table.Table{Claims: claims}, pf, lost))); !slices.Equal(got, []int{3, 11}) {
		t.Errorf("they are %v", got)
	}
}

func TestASplitIsDoneWhenEachVFThatNoLeaseHasIsThere(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	const pf, devices = "0000:3b:00.0", "bus/pci/devices/"
	s := splitting{pf: pf, taken: map[int]bool{1: true}}
	sys := fstest.MapFS{
		devices + pf + "/virtfn0": link("../0000:3b:00.1"), devices + pf + "/virtfn1": link("../0000:3b:00.2"), devices + pf + "/virtfn2": link("../0000:3b:00.3"),
	}
	s.sys = sys
	for _, next := range []struct{ comes, missing string }{
		{"0000:3b:00.1/infiniband/mlx5_2", "the RDMA device of VF 0 (0000:3b:00.1)"},
		{"0000:3b:00.1/net/eth2", "the interface of VF 0 (0000:3b:00.1)"},
		{"0000:3b:00.3/infiniband/mlx5_3", "the RDMA device of VF 2 (0000:3b:00.3)"},
		{"0000:3b:00.3/net/eth3", "the interface of VF 2 (0000:3b:00.3)"},
	} {
		if missing, err := s.missing(3); err != nil || missing != next.missing {
			t.Errorf("%q is missing, %v; want %q", missing, err, next.missing)
		}
		sys[devices+next.comes] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	if missing, err := s.missing(3); err != nil || missing != "" {
		t.Errorf("%q is missing, %v", missing, err)
	}
}
