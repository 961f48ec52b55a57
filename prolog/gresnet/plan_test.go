package main

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

// aPlan is that of a job of two nodes that gets an HCA, an uplink and an overlay.
func aPlan() *report.Plan {
	hca := report.Bare("mlx5_0", node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:3b:00.0"})
	index := 3
	bare := hca
	hca.Gres, hca.Index = "nic", &index
	hca.Ports = []report.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: "ib0", Addresses: []netip.Prefix{
		netip.MustParsePrefix("10.9.0.7/16"), netip.MustParsePrefix("fe80::1/64"),
	}}}
	return &report.Plan{
		Notes:     []string{"policy 1 fits"},
		Isolation: "network",
		HCAs:      []report.HCA{hca},
		Uplink: &report.Uplink{
			Interface: "uplink0", Type: "veth", Address: netip.MustParseAddr("100.127.0.3"), Gateway: "100.127.0.1",
			Routes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		},
		Overlay: &report.Overlay{
			Interface: "job0", Address: netip.MustParsePrefix("172.31.0.1/16"), MTU: 1430, Nodes: []report.Node{
				{Name: "n1", Address: netip.MustParseAddr("172.31.0.1")}, {Name: "n2", Address: netip.MustParseAddr("172.31.0.2"), At: "192.0.2.2"},
			},
		},
		Names: []report.Names{{Address: netip.MustParseAddr("172.31.0.1"), Names: []string{"n1.cluster", "n1"}}},
		Steps: []report.Step{{Kind: "claim"}, {Kind: "vf", Object: "mlx5_9", Sets: "vlan 100 qos 0 proto 802.1q"}, {Kind: "namespace"}, {Kind: "rdma", Object: "mlx5_0", HCA: &bare}},
	}
}

func TestAPlanShowsWhatTheJobHasAndEachStep(t *testing.T) {
	text := golden.Printed(t, func(w io.Writer) error { return printPlan(w, aPlan()) })
	golden.Check(t, "plan.txt", text)
	golden.Fits(t, text)
	none := golden.Printed(t, func(w io.Writer) error { return printPlan(w, &report.Plan{Notes: []string{"the job has none"}}) })
	if want := "# the job has none\nno HCA, and nothing to do\n"; none != want {
		t.Errorf("got\n%swant\n%s", none, want)
	}
	stays := aPlan()
	stays.Isolation = "devices"
	if text := golden.Printed(t, func(w io.Writer) error { return printPlan(w, stays) }); !strings.Contains(text, "\nthe job stays in the node's network\n") {
		t.Errorf("got\n%s", text)
	}
}
