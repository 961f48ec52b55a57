package gres_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/node"
)

// hca is the n-th HCA of a node: mlx5_n.
func hca(n int) node.HCA {
	return node.HCA{
		ID:   node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", n), PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+n)},
		Name: fmt.Sprintf("mlx5_%d", n),
	}
}

func hcas(n int) []node.HCA {
	var all []node.HCA
	for i := range n {
		all = append(all, hca(i))
	}
	return all
}

// parse is a configuration of the site's.
func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMapWithoutEntriesNumbersInTheOrderGiven(t *testing.T) {
	noPCI := node.HCA{ID: node.ID{GUID: "0000:0000:0000:0001"}, Name: "siw0"}
	sf := hca(1)
	sf.ID.Aux, sf.Name = "mlx5_core.sf.2", "mlx5_9"
	have := []node.HCA{hca(2), sf, hca(0), noPCI, hca(1)}
	m, err := gres.Map(parse(t, "[slurm]\ngres = [\"ib\", \"nic\"]\n"), have)
	want := gres.Mapping{
		{Gres: "ib", Index: 0, HCA: hca(2)}, {Gres: "ib", Index: 1, HCA: sf}, {Gres: "ib", Index: 2, HCA: hca(0)},
		{Gres: "ib", Index: 3, HCA: noPCI}, {Gres: "ib", Index: 4, HCA: hca(1)},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
	if m.String() != "ib 0-4" {
		t.Errorf("prints %q", m)
	}
	if m, err := gres.Map(config.Default(), nil); err != nil || len(m) != 0 || m.String() != "none" {
		t.Errorf("of a node without HCAs: %v, %v", m, err)
	}
}

func TestMap(t *testing.T) {
	cfg := parse(t, `
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
`)
	m, err := gres.Map(cfg, hcas(4))
	want := gres.Mapping{
		{Gres: "nic", Type: "mlx5", Index: 1, HCA: hca(0), GPUs: []int{2, 3}},
		{Gres: "nic", Index: 0, HCA: hca(2), Keep: true},
		{Gres: "hca", Index: 0, HCA: hca(1)},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
	if m.String() != "nic 1 (mlx5), nic 0, hca 0" {
		t.Errorf("prints %q", m)
	}
}

func TestMapNamesWhatIsWrong(t *testing.T) {
	sf := hca(0)
	sf.ID.Aux, sf.Name = "mlx5_core.sf.2", "mlx5_9"
	for _, c := range []struct {
		name, text string
		have       []node.HCA
		err        string
	}{
		{"an HCA that the node lacks", "[[hca]]\nindex = 7\nmatch = \"rdma=mlx5_7\"\n", hcas(2),
			"map nic 7 (rdma=mlx5_7): the node has no such HCA; it has mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), mlx5_1 (0002:c903:00ab:0001@0000:11:00.0)"},
		{"a node without any", "[[hca]]\nindex = 0\nmatch = \"pci=3b:00.0\"\n", nil,
			"map nic 0 (pci=0000:3b:00.0): the node has no such HCA; it has none"},
		{"a match of two", "[[hca]]\nindex = 0\nmatch = \"pci=10:00.0\"\n", []node.HCA{hca(0), sf},
			"map nic 0 (pci=0000:10:00.0): several HCAs match: mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), mlx5_9 (0002:c903:00ab:0000@0000:10:00.0/mlx5_core.sf.2)"},
		{"an HCA in two entries", "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n[[hca]]\nindex = 1\nmatch = \"pci=10:00.0\"\n", hcas(1),
			"map nic 1 (pci=0000:10:00.0): it is mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), which nic 0 is already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gres.Map(parse(t, c.text), c.have)
			checkFault(t, err, c.err)
		})
	}
	if _, err := gres.Map(config.Config{}, hcas(1)); err == nil {
		t.Error("HCAs were numbered as the GRES of no name")
	}
}

// checkFault wants an error that is the node's fault and has a hint.
func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	checkText(t, err, want)
	var refusal *gres.Refusal
	if errors.As(err, &refusal) {
		t.Errorf("%v is the job's fault, want the node's", err)
	}
}

// checkRefusal wants an error that is the job's fault and has a hint.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	checkText(t, err, want)
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("%v is the node's fault, want the job's", err)
	}
}

func checkText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Fatalf("error %v,\nwant  %s", err, want)
	}
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Errorf("%v has no hint", err)
	}
}
