package config_test

import (
	"fmt"
	"reflect"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
)

func TestATableInPartsMeansThePFsFirstVFsAndCoversAllOfIt(t *testing.T) {
	c, err := config.Parse([]byte("[[hca]]\nindex = 4\npart = \"vf\"\ncount = 2\nmatch = \"pci=3b:00.0\"\ngpus = [5, 3]\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	const pf = "0000:3b:00.0"
	h := c.HCAs[0]
	want := config.HCA{Gres: "nic", Index: 4, Match: config.Match{Key: "pci", Value: pf}, Part: "vf", Count: 2, GPUs: []int{5, 3}}
	if !reflect.DeepEqual(h, want) || !reflect.DeepEqual(h.GPUsOf(1), []int{3}) || h.GPUsOf(2) != nil {
		t.Errorf("got %+v, want %+v", h, want)
	}
	for _, c := range []struct {
		id                    node.ID
		part                  int
		gives, covers, splits bool
	}{
		{node.ID{GUID: "0002:c903:00ab:0001", PCI: pf}, 0, false, true, true},
		{node.ID{PCI: pf, VF: "0"}, 0, true, true, false},
		{node.ID{PCI: pf, VF: "1"}, 1, true, true, false},
		{node.ID{PCI: pf, VF: "2"}, 2, false, true, false},
		{node.ID{PCI: "0000:3b:00.1", VF: "1"}, 1, false, false, false},
		{node.ID{PCI: "0000:3b:00.1"}, 0, false, false, false},
	} {
		part, is := h.PartOf(c.id)
		have := node.HCA{ID: c.id}
		if part != c.part || is != c.gives || h.Gives(have) != c.gives || h.Covers(have) != c.covers || h.Splits(c.id) != c.splits {
			t.Errorf("%s: part %d, %t; gives %t, covers %t, splits %t", c.id, part, is, h.Gives(have), h.Covers(have), h.Splits(c.id))
		}
	}
}

func TestAnHCAInSlotsIsGivenByItsMatchAndCountedOrNot(t *testing.T) {
	for text, want := range map[string]struct {
		count, parts int
		slots        bool
	}{
		"part = \"macvlan\"\ncount = 8\nnetwork = \"10.64.0.0/16\"\n": {8, 8, true},
		"part = \"shared\"\ncount = 3\n":                              {3, 3, true},
		"part = \"shared\"\n":                                         {0, 1, true},
		"part = \"pkey\"\ncount = 4\npkey = 0x8001\n":                 {4, 4, true},
		"": {0, 1, false},
	} {
		c, err := config.Parse([]byte("[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_bond_0\"\n"+text), "f")
		if err != nil {
			t.Fatal(err)
		}
		h, have := c.HCAs[0], node.HCA{Name: "mlx5_bond_0", ID: node.ID{GUID: "0002:c903:00ab:0001"}}
		if h.Count != want.count || h.Parts() != want.parts || h.Kind().Slots() != want.slots || !h.Gives(have) || !h.Covers(have) || h.Splits(have.ID) {
			t.Errorf("%q: got %+v", text, h)
		}
	}
}

func TestAPKeyIsThatOfFullMembersWhoeverSaysIt(t *testing.T) {
	text := "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\npart = \"pkey\"\ncount = 2\n%s[[policy]]\naccount = \"physics\"\npkey = 0x0002\n"
	for own, want := range map[string]node.PKey{"": 0, "pkey = 1\n": 0x8001, "pkey = 0xffff\n": 0xffff} {
		c, err := config.Parse([]byte(fmt.Sprintf(text, own)), "f")
		if err != nil {
			t.Fatal(err)
		}
		if c.HCAs[0].PKey != want || c.Policies[0].PKey != 0x8002 || !c.Policies[0].Silent {
			t.Errorf("%q: got %s and %+v", own, c.HCAs[0].PKey, c.Policies[0])
		}
	}
}
