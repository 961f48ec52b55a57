package node_test

import (
	"slices"
	"strings"
	"testing"

	"gresnet/lib/node"
)

func TestHCAsAreOrderedByPCIAddressThenByWhatTellsThemApart(t *testing.T) {
	want := []node.ID{
		{GUID: "9"},
		{GUID: "8", PCI: "0000:03:00.0"},
		{GUID: "7", PCI: "0000:03:00.0", Aux: "mlx5_core.sf.2"},
		{PCI: "0000:03:00.0", VF: "0"},
		{PCI: "0000:03:00.0", VF: "9"},
		{PCI: "0000:03:00.0", VF: "10"},
		{GUID: "6", PCI: "0000:3b:00.0"},
		{GUID: "5", PCI: "0001:00:00.0"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, node.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("order %v", got)
	}
}

func TestAnIDIsForPeopleToo(t *testing.T) {
	id := node.ID{GUID: "0002:c903:00ab:cdef", PCI: "0000:3b:00.0", Aux: "mlx5_core.sf.2"}
	if got := id.String(); !strings.HasPrefix(got, "0002:c903:00ab:cdef@0000:3b:00.0") {
		t.Errorf("String() is %q", got)
	}
}
