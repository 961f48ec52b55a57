package host

import (
	"testing"

	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
)

func TestInterfacesThatAreMadeHaveNamesOfTheirOwn(t *testing.T) {
	child := func(name string) []*step.Child { return []*step.Child{{Name: name}} }
	moved := []*step.Settings{{Settings: snapshot.Settings{Own: link.Own{Name: "eth2_1"}}}}
	hcas := []step.HCA{{Children: child("eth2")}, {Children: child("eth2")}, {Interfaces: moved}, {Children: child("enp226s0f1np1ab")}, {Children: child("enp226s0f1np1ab")}}
	nameChildren(hcas)
	for i, want := range map[int]string{0: "eth2", 1: "eth2_2", 3: "enp226s0f1np1ab", 4: "enp226s0f1np1_1"} {
		if c := hcas[i].Children[0]; c.Name != want || c.Link.Name != want {
			t.Errorf("child %d is %q and %q, want %q", i, c.Name, c.Link.Name, want)
		}
	}
}
