package node_test

import (
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/node"
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

func TestTheNameOfAnHCAsFileIsReadBackAndStaysInItsFolder(t *testing.T) {
	for want, id := range map[string]node.ID{
		"0002:c903:00ab:cdef@0000:3b:00.0":                    {GUID: "0002:c903:00ab:cdef", PCI: "0000:3b:00.0"},
		"0002:c903:00ab:cdef@0000:3b:00.0,slot=3":             {GUID: "0002:c903:00ab:cdef", PCI: "0000:3b:00.0", Slot: "3"},
		"0002:c903:00ab:cdef@0000:3b:00.0,aux=mlx5_core.sf.2": {GUID: "0002:c903:00ab:cdef", PCI: "0000:3b:00.0", Aux: "mlx5_core.sf.2"},
		"0000:3b:00.0,vf=2":                                   {PCI: "0000:3b:00.0", VF: "2"},
		"505b:9fff:fe01:0203":                                 {GUID: "505b:9fff:fe01:0203"},
		"%2E.%2F@%2E.%2Fx,aux=a%2Cb%3Dc":                      {GUID: "../", PCI: "../x", Aux: "a,b=c"},
	} {
		if got := id.File(); got != want {
			t.Errorf("%v is in %s, wanted %s", id, got, want)
		}
	}
	for _, name := range []string{"", ".", "..", ".new", "a/b", "a,slot", "a,slot=", "a,vf=2,vf=3", "a,slot=1,vf=2", "a%2", "a,b=c", "%61"} {
		if id, err := node.ParseFile(name); err == nil {
			t.Errorf("%q is %v", name, id)
		}
	}
}

// FuzzFile gives identities names of files and names of files identities.
func FuzzFile(f *testing.F) {
	f.Add("0002:c903:00ab:cdef", "0000:3b:00.0", "2", "mlx5_core.sf.2", "3")
	f.Add("", "", "", "", "")
	f.Add("..", "/", "%", ",=@", "\x00\xff")
	f.Fuzz(func(t *testing.T, guid, pci, vf, aux, slot string) {
		id := node.ID{GUID: guid, PCI: pci, VF: vf, Aux: aux, Slot: slot}
		name := id.File()
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\x00") {
			t.Errorf("%#v is in %q", id, name)
		}
		if again, err := node.ParseFile(name); err != nil || again != id {
			t.Errorf("%#v is in %q, which is %#v, %v", id, name, again, err)
		}
		if again, err := node.ParseFile(guid); err == nil && again.File() != guid {
			t.Errorf("%q is %#v, which is in %q", guid, again, again.File())
		}
	})
}
