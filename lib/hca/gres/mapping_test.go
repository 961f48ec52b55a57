package gres_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/sitetest"
)

func TestMapWithoutEntriesNumbersInTheOrderGivenLessSubfunctions(t *testing.T) {
	noPCI := node.HCA{ID: node.ID{GUID: "0000:0000:0000:0001"}, Name: "siw0"}
	sf := sitetest.HCA(1)
	sf.ID.Aux, sf.Name = "mlx5_core.sf.2", "mlx5_9"
	have := []node.HCA{sitetest.HCA(2), sf, sitetest.HCA(0), noPCI, sitetest.HCA(1)}
	m, err := gres.Map(sitetest.Parse(t, "[slurm]\ngres = [\"ib\", \"nic\"]\n"), have)
	want := gres.Mapping{
		{Gres: "ib", Index: 0, HCA: sitetest.HCA(2)}, {Gres: "ib", Index: 1, HCA: sitetest.HCA(0)},
		{Gres: "ib", Index: 2, HCA: noPCI}, {Gres: "ib", Index: 3, HCA: sitetest.HCA(1)},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
	if m.String() != "ib 0-3" {
		t.Errorf("prints %q", m)
	}
	if m, err := gres.Map(config.Default(), nil); err != nil || len(m) != 0 || m.String() != "none" {
		t.Errorf("of a node without HCAs: %v, %v", m, err)
	}
}

// vf returns a VF of sitetest.HCA(0).
func vf(number, function string) node.HCA {
	return node.HCA{ID: node.ID{PCI: sitetest.HCA(0).ID.PCI, VF: number}, Name: "vf" + number, GUID: "0000:0000:0000:0000", Function: function}
}

func TestVFsAreNotNumberedAmongTheHCAs(t *testing.T) {
	have := []node.HCA{sitetest.HCA(0), vf("0", "0000:10:00.1"), vf("1", "0000:10:00.2"), sitetest.HCA(1)}
	m, err := gres.Map(config.Default(), have)
	want := gres.Mapping{{Gres: "nic", Index: 0, HCA: sitetest.HCA(0)}, {Gres: "nic", Index: 1, HCA: sitetest.HCA(1)}}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
}

func TestAPFIsWholeOrItsVFsAreListed(t *testing.T) {
	pf := sitetest.HCA(0)
	have := []node.HCA{pf, vf("0", "0000:10:00.1"), vf("1", "0000:10:00.2"), sitetest.HCA(1)}
	entries := func(match ...string) string {
		text := ""
		for i, m := range match {
			text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = %q\n", i, m)
		}
		return text
	}
	m, err := gres.Map(sitetest.Parse(t, entries("pci=10:00.1", "rdma=vf1", "pci="+sitetest.HCA(1).ID.PCI)), have)
	if err != nil || m.Drift() != nil || m[0].HCA.ID != have[1].ID || m[1].HCA.ID != have[2].ID {
		t.Errorf("VFs alone: %+v, %v", m, err)
	}
	if m, err := gres.Map(sitetest.Parse(t, entries("pci="+pf.ID.PCI, "pci="+sitetest.HCA(1).ID.PCI)), have); err != nil || m.Drift() != nil || m[0].HCA.ID != pf.ID {
		t.Errorf("the PF alone: %+v, %v", m, err)
	}
	if _, err := gres.Map(sitetest.Parse(t, entries("pci=10:00.1", "pci="+pf.ID.PCI)), have); err == nil || !strings.Contains(err.Error(), "it is VF 0 of "+pf.Name) {
		t.Errorf("both: %v", err)
	}
}

func TestAPFInPartsMakesAnEntryForEachOfItsVFs(t *testing.T) {
	pf := sitetest.HCA(0)
	have := []node.HCA{pf, vf("0", "0000:10:00.1"), vf("1", "0000:10:00.2"), vf("3", "0000:10:00.4"), sitetest.HCA(1)}
	parts := "[[hca]]\nindex = 4\ntype = \"vf\"\npart = \"vf\"\ncount = 3\nmatch = \"pci=" + pf.ID.PCI + "\"\ngpus = [7, 6]\n"
	m, err := gres.Map(sitetest.Parse(t, parts), have)
	if err != nil {
		t.Fatal(err)
	}
	sitetest.Fault(t, m[2].Drift, "map nic 6: "+pf.ID.PCI+" has no VF 2 with an RDMA device")
	m[2].Drift = nil
	want := gres.Mapping{
		{Gres: "nic", Type: "vf", Index: 4, HCA: have[1], GPUs: []int{7}},
		{Gres: "nic", Type: "vf", Index: 5, HCA: have[2], GPUs: []int{6}},
		{Gres: "nic", Type: "vf", Index: 6},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	for _, c := range []struct{ match, err string }{
		{"rdma=mlx5_0", "map nic 0: it is mlx5_0 (" + pf.ID.String() + "), which another [[hca]] gives in parts (nic 4 is the first)"},
		{"pci=10:00.2", "map nic 0 (pci=0000:10:00.2): it is vf1 (" + pf.ID.PCI + "/vf1), which nic 5 is already"},
	} {
		_, err := gres.Map(sitetest.Parse(t, parts+"[[hca]]\nindex = 0\nmatch = \""+c.match+"\"\n"), []node.HCA{pf, have[1], have[2]})
		sitetest.Fault(t, err, c.err)
	}
	if _, err := gres.Map(sitetest.Parse(t, parts+"[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n"), []node.HCA{pf}); err == nil {
		t.Error("a PF is whole in one entry and in parts in another before it has VFs")
	}
}

func TestMap(t *testing.T) {
	cfg := sitetest.Parse(t, `
[slurm]
gres = ["nic", "hca"]
[[hca]]
index = 1
type = "mlx5"
match = "rdma=mlx5_0"
gpus = [2, 3]
[[hca]]
index = 0
match = "pci=12:00.0"
interface = "keep"
[[hca]]
gres = "hca"
index = 0
match = "guid=0002:c903:00ab:0001"
[[hca]]
gres = "hca"
index = 1
match = "rdma=mlx5_9"
`)
	// A subfunction has the PCI address of its function, and one of its own on the auxiliary bus.
	sf := sitetest.HCA(0)
	sf.ID.Aux, sf.Name = "mlx5_core.sf.2", "mlx5_9"
	m, err := gres.Map(cfg, append(sitetest.HCAs(4), sf))
	want := gres.Mapping{
		{Gres: "nic", Type: "mlx5", Index: 1, HCA: sitetest.HCA(0), GPUs: []int{2, 3}},
		{Gres: "nic", Index: 0, HCA: sitetest.HCA(2), Keep: true},
		{Gres: "hca", Index: 0, HCA: sitetest.HCA(1)},
		{Gres: "hca", Index: 1, HCA: sf},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
	if m.String() != "nic 1 (mlx5), nic 0, hca 0-1" {
		t.Errorf("prints %q", m)
	}
}

func TestMapNamesWhatIsWrong(t *testing.T) {
	sf := sitetest.HCA(0)
	sf.ID.Aux, sf.Name = "mlx5_core.sf.2", "mlx5_9"
	for _, c := range []struct {
		name, text string
		have       []node.HCA
		err        string
	}{
		{"an HCA that the node lacks", "[[hca]]\nindex = 7\nmatch = \"rdma=mlx5_7\"\n", sitetest.HCAs(2),
			"map nic 7 (rdma=mlx5_7): the node has no such HCA; it has mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), mlx5_1 (0002:c903:00ab:0001@0000:11:00.0)"},
		{"a node without any", "[[hca]]\nindex = 0\nmatch = \"pci=3b:00.0\"\n", nil,
			"map nic 0 (pci=0000:3b:00.0): the node has no such HCA; it has none"},
		{"a match of two", "[[hca]]\nindex = 0\nmatch = \"pci=10:00.0\"\n", []node.HCA{sitetest.HCA(0), sf},
			"map nic 0 (pci=0000:10:00.0): several HCAs match: mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), mlx5_9 (0002:c903:00ab:0000@0000:10:00.0/mlx5_core.sf.2)"},
		{"an HCA in two entries", "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n[[hca]]\nindex = 1\nmatch = \"pci=10:00.0\"\n", sitetest.HCAs(1),
			"map nic 1 (pci=0000:10:00.0): it is mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), which nic 0 is already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := gres.Map(sitetest.Parse(t, c.text), c.have)
			if err == nil {
				err = m.Drift()
			}
			sitetest.Fault(t, err, c.err)
		})
	}
	if _, err := gres.Map(config.Config{}, sitetest.HCAs(1)); err == nil {
		t.Error("HCAs were numbered as the GRES of no name")
	}
}

// drifted is nic 0, which is there, nic 1 and 2, which are not, and nic 3, which is.
func drifted(t *testing.T) gres.Mapping {
	t.Helper()
	var text string
	for i, name := range []string{"mlx5_0", "mlx5_7", "mlx5_8", "mlx5_1"} {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\n", i, name)
	}
	m, err := gres.Map(sitetest.Parse(t, text), sitetest.HCAs(2))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnEntryThatHasDriftedIsAnErrorOfThoseWhoNeedIt(t *testing.T) {
	const has = ": the node has no such HCA; it has mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), mlx5_1 (0002:c903:00ab:0001@0000:11:00.0)"
	const seven, eight = "map nic 1 (rdma=mlx5_7)" + has, "map nic 2 (rdma=mlx5_8)" + has
	m := drifted(t)
	sitetest.Fault(t, m.Drift(), seven+"; "+eight)
	if hcas := m.HCAs(); !reflect.DeepEqual(hcas, sitetest.HCAs(2)) {
		t.Errorf("its HCAs are %v", hcas)
	}
	for _, c := range []struct {
		name string
		want gres.Want
		held []int
		gets string
		err  string
	}{
		{"another index", gres.Want{Gres: "nic", Indices: []int{0, 3}, Source: "scontrol"}, nil, "nic 0, nic 3", ""},
		{"its index", gres.Want{Gres: "nic", Indices: []int{0, 1}, Source: "scontrol"}, nil, "", "choose nic:2(IDX:0-1): " + seven},
		{"its index by policy", gres.Want{Gres: "nic", Indices: []int{2}, Source: "policy"}, nil, "", "choose nic:1(IDX:2): " + eight},
		{"its index if it is free", gres.Want{Gres: "nic", Indices: []int{1}, IfFree: true, Source: "gpu"}, nil, "", "choose nic:1(IDX:1): " + seven},
		{"a count of the others", gres.Want{Gres: "nic", Count: 2, Source: "scontrol"}, nil, "nic 0, nic 3", ""},
		{"a count beyond the others", gres.Want{Gres: "nic", Count: 3, Source: "policy"}, nil, "", "choose nic:3: 2 of 4 are free here; " + seven + "; " + eight},
		{"a count that others hold a part of", gres.Want{Gres: "nic", Count: 2, Source: "policy"}, []int{0}, "",
			"choose nic:2: 1 of 4 are free here; mlx5_0 (nic 0): job 1 has it since 2026-11-21 10:31:00; " + seven + "; " + eight},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gres.Choose([]gres.Want{c.want}, m, heldIn(c.held), nil)
			if c.err != "" {
				sitetest.Fault(t, err, c.err)
			} else if err != nil || names(got) != c.gets {
				t.Errorf("got %q, %v, want %q", names(got), err, c.gets)
			}
		})
	}
}
