package inspect

import (
	"io"
	"net/netip"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/test/golden"
)

func TestAPlanHasTheAddressesThatMoveAndNoneThatStay(t *testing.T) {
	hca := func(n int, keep bool) (gres.Entry, step.HCA) {
		id := node.ID{GUID: "0002:c903:00ab:000" + string(rune('0'+n)), PCI: "0000:3b:00.0"}
		name := "mlx5_" + string(rune('0'+n))
		at := link.Interface{Name: "ib" + string(rune('0'+n))}
		// An address message as the kernel has it: 10.9.0.7/16.
		at7 := inet.Address{2, 16, 128, 0, 0, 0, 0, 0, 8, 0, 2, 0, 10, 9, 0, 7}
		return gres.Entry{Gres: "nic", Index: n, HCA: node.HCA{ID: id, Name: name}, Keep: keep}, step.HCA{
			ID: id, Name: name, Keep: keep,
			Ports:      []scan.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: &at}, {Num: 2, State: "DOWN"}},
			Interfaces: []*step.Settings{{Of: id, Port: 1, Settings: snapshot.Settings{Addresses: []inet.Address{at7}}}},
		}
	}
	e0, h0 := hca(0, false)
	e1, h1 := hca(1, true)
	nodes := &jobnet.Network{Nodes: []jobnet.Node{{Name: "n1", Address: netip.MustParseAddr("172.31.0.1")}, {Name: "n2", Address: netip.MustParseAddr("172.31.0.2")}}}
	nodes.Link = virtual.Overlay{Name: "job0", Address: netip.MustParsePrefix("172.31.0.1/16"), MTU: 1430, Peers: []virtual.Peer{{Address: nodes.Nodes[1].Address, Node: netip.MustParseAddr("192.0.2.2")}}}
	d := planOf(preview{
		Isolation: "network", Entries: []gres.Entry{e0, e1}, HCAs: []step.HCA{h0, h1}, Overlay: nodes, Names: []string{"n1.cluster", "n1"},
		Uplink: &network.Uplink{Type: "veth", Address: netip.MustParseAddr("100.127.0.3"), Pool: jobnet.Pool{Name: "uplink0"}},
		Steps:  []step.Step{&step.Claim{}, &step.RDMA{ID: e0.HCA.ID, Name: "mlx5_0"}},
	})
	d.Notes = []string{"policy 1 fits"}
	golden.Check(t, "plan.json", golden.Printed(t, func(w io.Writer) error { return report.Print(w, d) }))
}

func TestAPlanHasTheInterfaceForAPartitionInPlaceOfTheOneBelowIt(t *testing.T) {
	id, at := node.ID{PCI: "0000:3b:00.0"}, link.Interface{Name: "ib0"}
	own := inet.Address{2, 16, 128, 0, 0, 0, 0, 0, 8, 0, 2, 0, 10, 9, 0, 7}
	made := netip.MustParsePrefix("10.128.0.7/16")
	d := planOf(preview{Entries: []gres.Entry{{HCA: node.HCA{ID: id}}}, HCAs: []step.HCA{{
		ID:         id,
		Ports:      []scan.Port{{Num: 1, Interface: &at}},
		Interfaces: []*step.Settings{{Of: id, Port: 1, Settings: snapshot.Settings{Addresses: []inet.Address{own}}}},
		Children:   []*step.Child{{Of: id, Port: 1, Name: "ib0.8001", Link: virtual.Child{Address: made}}},
	}}})
	if p := d.HCAs[0].Ports[0]; p.Interface != "ib0.8001" || len(p.Addresses) != 1 || p.Addresses[0] != made {
		t.Errorf("got %+v", p)
	}
}

func TestAPlanOfAJobThatGetsNothingHasEmptyLists(t *testing.T) {
	golden.Check(t, "plan-none.json", golden.Printed(t, func(w io.Writer) error { return report.Print(w, planOf(preview{})) }))
}
