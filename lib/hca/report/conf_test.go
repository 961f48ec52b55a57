package report_test

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

func seat(pci string, numa int) report.GPU { return report.GPU{PCI: pci, NUMA: numa} }

// whole returns a node with one HCA of each kind that is shown differently.
func whole() report.Scan {
	return report.Scan{
		Mode: "exclusive",
		GPUs: []report.GPU{seat("0000:07:00.0", 0), seat("0000:0f:00.0", 0), seat("0000:87:00.0", 1), seat("0000:90:00.0", 1)},
		HCAs: []report.HCA{
			{
				Gres: "nic", Type: "hdr", Index: new(0), ID: node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:0c:00.0"}, Name: "mlx5_0", Driver: "mlx5",
				NUMA: new(0), Cores: []int{0, 1, 2, 3}, Serves: []int{0, 1}, Distance: []string{"switch", "switch", "system", "system"},
				Ports: []report.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: "ib0", Rate: "200 Gb/sec (4X HDR)"}},
				Chars: []report.Char{{Kind: "uverbs", Name: "uverbs0"}, {Kind: "umad", Port: 1, Name: "umad0"}, {Kind: "issm", Port: 1, Name: "issm0"}},
			},
			{
				Gres: "nic", Type: "hdr", Index: new(1), ID: node.ID{GUID: "0002:c903:00ab:0001", PCI: "0000:8d:00.0"}, Name: "mlx5_1", Driver: "mlx5",
				NUMA: new(1), Cores: []int{4, 5, 6, 7}, Serves: []int{2, 3}, Distance: []string{"system", "system", "root", "numa"}, Away: true, Keep: true,
				Ports: []report.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: "ib1"}},
				Claim: &report.Claim{Job: 4294967293},
			},
			{
				Gres: "nic", Type: "ndr", Index: new(2), ID: node.ID{GUID: "0002:c903:00ab:0002", PCI: "0000:e1:00.0", Aux: "mlx5_core.sf.4"}, Name: "mlx5_2", Driver: "mlx5", NUMA: new(-1),
				Distance: []string{"system", "system", "system", "system"},
				Ports:    []report.Port{{Num: 1, LinkLayer: "Ethernet", State: "DOWN", Interface: "enp225s0f0np0", Rate: "100 Gb/sec (4X EDR)"}},
				Chars:    []report.Char{{Kind: "uverbs", Name: "uverbs2"}},
				Claim:    &report.Claim{Job: 4700, Quarantined: "it hangs"},
			},
			{
				ID: node.ID{GUID: "0002:c903:00ab:0003", PCI: "0000:e1:00.0"}, Name: "mlx5_3", Driver: "mlx5", NUMA: new(1),
				Distance: []string{"system", "system", "numa", "numa"},
				Ports: []report.Port{
					{Num: 1, LinkLayer: "Ethernet", State: "ACTIVE", Interface: "enp225s0f1np1", Rate: "2.5 Gb/sec (1X SDR)"},
					{Num: 2, LinkLayer: "Ethernet", State: "DOWN", Rate: "100 Gb/sec (4X EDR)"},
				},
				Chars: []report.Char{{Kind: "uverbs", Name: "uverbs3"}},
			},
			{ID: node.ID{GUID: "0000:0000:0000:0001"}, Name: "siw0", Driver: "siw", NUMA: new(-1), Away: true, Ports: []report.Port{{Num: 1}}},
		},
	}
}

// longest returns a node of 16 GPUs and HCAs whose names are as long as they get:
// rdma-core's and udev's own, after the PCI address.
func longest() report.Scan {
	s := report.Scan{Mode: "shared"}
	for n := range 16 {
		name := fmt.Sprintf("p%ds0f1", 225+n)
		h := report.HCA{
			Gres: "nic", Index: new(n), ID: node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:e1:00.1"}, Name: "roce" + name, Driver: "bnxt_re", NUMA: new(1),
			Ports: []report.Port{{Num: 1, LinkLayer: "Ethernet", State: "ACTIVE", Interface: "en" + name + "np1", Rate: "400 Gb/sec (4X NDR)"}},
			Chars: []report.Char{{Kind: "uverbs", Name: fmt.Sprintf("uverbs%d", n)}},
			Claim: &report.Claim{Job: 4294967293, Quarantined: "it hangs"},
		}
		if n == 15 {
			h.Ports[0].LinkLayer = "InfiniBand"
			h.Chars = append(h.Chars, report.Char{Kind: "umad", Port: 1, Name: "umad15"}, report.Char{Kind: "issm", Port: 1, Name: "issm15"})
		}
		for g := range 16 {
			level := "system"
			if g == n {
				level = "switch"
				h.Serves = []int{g}
			}
			h.Distance = append(h.Distance, level)
		}
		s.GPUs = append(s.GPUs, seat("0000:a0:00.0", 1))
		s.HCAs = append(s.HCAs, h)
	}
	return s
}

func TestTheTableFitsATerminal(t *testing.T) {
	got := golden.Printed(t, whole().Table)
	golden.Check(t, "table.txt", got)
	golden.Fits(t, got)
	long := golden.Printed(t, longest().Table)
	golden.Check(t, "longest.txt", long)
	golden.Fits(t, long)
	golden.Check(t, "none.txt", golden.Printed(t, report.Scan{Mode: "shared"}.Table))
}

func TestTOMLParsesAndMapsBackToTheSame(t *testing.T) {
	s := whole()
	text := golden.Printed(t, func(w io.Writer) error { return s.TOML(w, []string{"nic", "ib"}) })
	golden.Check(t, "hca.toml", text)
	cfg, err := config.Parse([]byte("[slurm]\ngres = [\"nic\", \"ib\"]\n"+text), "scan")
	if err != nil {
		t.Fatal(err)
	}
	var have []node.HCA
	for _, h := range s.HCAs {
		have = append(have, node.HCA{ID: h.ID, Name: h.Name})
	}
	m, err := gres.Map(cfg, have)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range m {
		h := s.HCAs[i]
		got := report.HCA{Gres: e.Gres, Type: e.Type, Index: new(e.Index), Keep: e.Keep, Serves: e.GPUs, ID: e.HCA.ID}
		want := report.HCA{Gres: "nic", Type: h.Type, Index: new(i), Keep: h.Keep, Serves: h.Serves, ID: h.ID}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if len(m) != len(s.HCAs) {
		t.Errorf("%d HCAs are mapped of %d", len(m), len(s.HCAs))
	}
}

func TestTOMLHasOneTableForAPFInParts(t *testing.T) {
	s := whole()
	const parts = "[[hca]]\ngres  = \"nic\"\ntype  = \"vf\"\nindex = 3\nmatch = \"pci=0000:0c:00.0\"\npart  = \"vf\"\ncount = 4\ngpus  = [1, 0]\nvf = {vlan = 100}\n"
	cfg, err := config.Parse([]byte(parts), "site")
	if err != nil {
		t.Fatal(err)
	}
	s.Parts = cfg.HCAs
	for i := range 4 {
		s.HCAs = append(s.HCAs, report.HCA{ID: node.ID{PCI: "0000:0c:00.0", VF: fmt.Sprint(i)}, Gres: "nic", Type: "vf", Index: new(3 + i)})
	}
	text := golden.Printed(t, func(w io.Writer) error { return s.TOML(w, []string{"nic"}) })
	again, err := config.Parse([]byte(text), "scan")
	if !strings.HasPrefix(text, parts) || err != nil || len(again.HCAs) != len(whole().HCAs) || !reflect.DeepEqual(again.HCAs[0], cfg.HCAs[0]) {
		t.Errorf("%v, of\n%s", err, text)
	}
	if strings.Contains(text, "mlx5_0") || !strings.Contains(text, "index = 7\n") {
		t.Errorf("the PF is whole, or the next HCA has a VF's number:\n%s", text)
	}
}

func TestTOMLOfSlotsIsOneTableAndGresConfHasALineForEach(t *testing.T) {
	const text = "[[hca]]\nindex = 0\npart = \"macvlan\"\ncount = 3\nmatch = \"rdma=mlx5_0\"\nnetwork = \"10.64.0.0/16\"\ngpus = [2, 0, 1]\n"
	whole := node.HCA{ID: node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:0c:00.0"}, Name: "mlx5_0"}
	mapped := func(text string) gres.Mapping {
		cfg, err := config.Parse([]byte(text), "f")
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		m, err := gres.Map(cfg, []node.HCA{whole})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := mapped(text)
	var s report.Scan
	for _, e := range before {
		s.HCAs = append(s.HCAs, report.HCA{
			Gres: e.Gres, Index: new(e.Index), ID: e.HCA.ID, Name: e.HCA.Name, Part: e.Part, Slots: e.Slot.Of, Network: e.Network.String(), Serves: e.GPUs,
			Ports: []report.Port{{Num: 1, LinkLayer: "Ethernet", Interface: "eth2"}},
		})
	}
	again := golden.Printed(t, func(w io.Writer) error { return s.TOML(w, []string{"nic"}) })
	if after := mapped(again); !reflect.DeepEqual(after, before) {
		t.Errorf("got %v, want %v, by\n%s", after, before, again)
	}
	lines := golden.Printed(t, func(w io.Writer) error { return s.GresConf(w, []string{"nic"}, "/d") })
	if strings.Count(lines, "Name=nic File=/d/nic") != 3 {
		t.Errorf("gres.conf has\n%s", lines)
	}
	if table := golden.Printed(t, s.Table); strings.Count(table, "eth2") != 1 || strings.Count(table, "nic ") != 3 {
		t.Errorf("scan says\n%s", table)
	}
}

func TestTOMLHasWhatNoJobWouldGetAsComments(t *testing.T) {
	s := whole()
	for i := range s.HCAs {
		s.HCAs[i].Gres, s.HCAs[i].Index = "", nil
	}
	s.HCAs[0].Refused = "eth0 has the address of NodeAddr 10.0.0.2"
	text := golden.Printed(t, func(w io.Writer) error { return s.TOML(w, []string{"nic"}) })
	if !strings.Contains(text, "# no job's: eth0 has the address of NodeAddr 10.0.0.2\n# [[hca]] # "+s.HCAs[0].Name+", ") {
		t.Errorf("the node's own HCA is\n%s", text)
	}
	cfg, err := config.Parse([]byte(text), "scan")
	if err != nil || len(cfg.HCAs) != len(s.HCAs)-1 {
		t.Fatalf("%d HCAs, %v, of\n%s", len(cfg.HCAs), err, text)
	}
	for i, h := range cfg.HCAs {
		if h.Index != i {
			t.Errorf("HCA %d has index %d", i, h.Index)
		}
	}
	var all strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# no job's") {
			all.WriteString(strings.TrimPrefix(line, "# "))
		}
	}
	cfg, err = config.Parse([]byte(all.String()), "scan")
	if err != nil || len(cfg.HCAs) != len(s.HCAs) || cfg.HCAs[len(s.HCAs)-1].Index != len(s.HCAs)-1 {
		t.Errorf("with the comment taken away: %d HCAs, %v, of\n%s", len(cfg.HCAs), err, all.String())
	}
}

func TestGresConfNumbersAsTheMappingDoes(t *testing.T) {
	s := whole()
	got := golden.Printed(t, func(w io.Writer) error { return s.GresConf(w, []string{"nic", "ib"}, "/dir") })
	golden.Check(t, "gres.conf", got)
	s.HCAs[1].Index = new(5)
	var out bytes.Buffer
	err := s.GresConf(&out, []string{"nic"}, "/dir")
	if want := "number nic for gres.conf: the mapping has nic 2 and no nic 1"; err == nil || err.Error() != want || out.Len() > 0 {
		t.Errorf("a gap: error %v, want %s, printed %q", err, want, out.String())
	}
	s = whole()
	s.HCAs[0].Type = ""
	err = s.GresConf(&out, []string{"nic"}, "/dir")
	if want := "number nic for gres.conf: mlx5_1 has type hdr and mlx5_0 has none, which slurmd refuses"; err == nil || err.Error() != want || out.Len() > 0 {
		t.Errorf("types of some: error %v, want %s, printed %q", err, want, out.String())
	}
	s = whole()
	s.HCAs[1].Type, s.HCAs[2].Type = "ndr", "hdr"
	err = s.GresConf(&out, []string{"nic"}, "/dir")
	if want := "number nic for gres.conf: mlx5_1, of type ndr, is between mlx5_0 and mlx5_2, of type hdr: slurmd numbers those of one type one after the other"; err == nil || err.Error() != want || out.Len() > 0 {
		t.Errorf("types in turns: error %v, want %s, printed %q", err, want, out.String())
	}
}

func TestANodesLineCountsItsHCAsByGRESAndType(t *testing.T) {
	for want, hcas := range map[string][]report.HCA{
		"":                    {{Name: "mlx5_0"}},
		"nic:2":               {{Gres: "nic"}, {Gres: "nic", Index: new(1)}, {Name: "mlx5_2"}},
		"nic:hdr:2,fast:1":    {{Gres: "nic", Type: "hdr"}, {Gres: "fast"}, {Gres: "nic", Type: "hdr", Index: new(1)}},
		"nic:ndr:1,nic:hdr:1": {{Gres: "nic", Type: "hdr", Index: new(1)}, {Gres: "nic", Type: "ndr"}}, // in the order of the numbers
		"nic:ndr:1,fast:9:1":  {{Gres: "fast", Type: "9"}, {Gres: "nic", Type: "ndr"}},
	} {
		if got := (report.Scan{HCAs: hcas}).Counts([]string{"nic", "fast"}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
