package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/link"
	"gresnet/lib/overlay"
	"gresnet/lib/slurm"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// world has a resolver that knows some names, and a way from 10.0.0.1 or fd00::1.
func world(hosts map[string]slurm.Host, names map[string]string) overlay.World {
	return overlay.World{
		Slurm: func() (slurm.Conf, error) { return confOf(hosts, "") },
		Look: func(_ context.Context, name string) (all []netip.Addr, err error) {
			for _, text := range strings.Fields(names[name]) {
				all = append(all, addr(text))
			}
			if all == nil {
				err = errors.New("no such host")
			}
			return all, err
		},
		Way: func(to netip.Addr) (netip.Addr, int, error) {
			switch {
			case to == addr("192.0.2.9"):
				return netip.Addr{}, 0, errors.New("network is unreachable")
			case to.Is6():
				return addr("fd00::1"), 1430, nil
			}
			return addr("10.0.0.1"), 1450, nil
		},
	}
}

// confOf is a slurm.conf with some nodes, and more text.
func confOf(hosts map[string]slurm.Host, text string) (slurm.Conf, error) {
	for name, h := range hosts {
		text += "\nNodeName=" + name
		for key, value := range map[string]string{"NodeAddr": h.Addr, "NodeHostname": h.Hostname} {
			if value != "" {
				text += " " + key + "=" + value
			}
		}
	}
	return slurm.Read(fstest.MapFS{"slurm.conf": {Data: []byte(text + "\n")}}, "/slurm.conf")
}

var small = config.Overlay{Kind: "vxlan", Network: netip.MustParsePrefix("198.18.0.0/29"), Port: 489, Interface: "job0"}

func jobOf(nodes string) job.Job { return job.Job{ID: 1<<24 + 7, Node: "node2", Nodes: nodes} }

func TestEachNodeOfAJobComputesTheSameNetwork(t *testing.T) {
	hosts := map[string]slurm.Host{"node1": {Addr: "10.0.0.11"}, "node3": {Addr: "three"}, "login": {Hostname: "login.example.org"}}
	names := map[string]string{"three": "10.0.0.13", "login.example.org": "fd00::9 10.0.0.14"}
	n, err := overlay.New(t.Context(), small, jobOf("node[1-3],login"), world(hosts, names))
	if err != nil {
		t.Fatal(err)
	}
	want := virtual.OverlayOf(7)
	want.Name, want.Port, want.Node, want.MTU = "job0", 489, addr("10.0.0.1"), 1450
	want.Address = netip.MustParsePrefix("198.18.0.2/29")
	want.Peers = []virtual.Peer{
		{Address: addr("198.18.0.1"), Node: addr("10.0.0.11")}, {Address: addr("198.18.0.3"), Node: addr("10.0.0.13")}, {Address: addr("198.18.0.4"), Node: addr("10.0.0.14")},
	}
	if !reflect.DeepEqual(n.Link, want) || n.Address() != addr("198.18.0.2") {
		t.Errorf("got %+v, want %+v", n.Link, want)
	}
	if last := (overlay.Node{Name: "login", Hostname: "login.example.org", Address: addr("198.18.0.4")}); len(n.Nodes) != 4 || n.Nodes[3] != last {
		t.Errorf("nodes %v, the last is to be %v", n.Nodes, last)
	}
}

func TestTheSiteSaysByWhichNamesNodesReachEachOther(t *testing.T) {
	c := small
	c.Underlay = "{node}-ib.example.org"
	hosts := map[string]slurm.Host{"node1": {Addr: "10.0.0.11"}, "node3": {Addr: "three"}}
	n, err := overlay.New(t.Context(), c, jobOf("node[1-3]"), world(hosts, map[string]string{"node1-ib.example.org": "10.3.0.1", "node3-ib.example.org": "10.3.0.3"}))
	want := []virtual.Peer{{Address: addr("198.18.0.1"), Node: addr("10.3.0.1")}, {Address: addr("198.18.0.3"), Node: addr("10.3.0.3")}}
	if err != nil || !reflect.DeepEqual(n.Link.Peers, want) {
		t.Errorf("got %+v, %v, want %+v", n, err, want)
	}
	if _, err := overlay.New(t.Context(), c, jobOf("node[1-3]"), world(hosts, nil)); fmt.Sprint(err) != "overlay: node node1 has no address: no such host" {
		t.Errorf("got %v", err)
	}
}

func TestAJobOnOneNodeAsksNobody(t *testing.T) {
	n, err := overlay.New(t.Context(), small, jobOf("node2"), overlay.World{Slurm: func() (slurm.Conf, error) { return nil, nil }})
	if err != nil || len(n.Link.Peers) > 0 || n.Link.Node != addr("127.0.0.1") || n.Address() != addr("198.18.0.1") {
		t.Errorf("got %+v, %v", n, err)
	}
	if n, err := overlay.New(t.Context(), small, jobOf(""), overlay.World{}); n != nil || err != nil {
		t.Errorf("without a list: %+v, %v", n, err)
	}
}

func TestASlurmConfThatDoesNotReadIsNoJobsFault(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=node3 NodeAddr":                  `/slurm.conf:1: "NodeAddr" is not KEY=VALUE`,
		"NodeName=node[2-3] NodeAddr=10.0.0.[1-3]": "overlay: /slurm.conf:1: nodeaddr counts 3 and NodeName 2",
	} {
		w := world(nil, nil)
		w.Slurm = func() (slurm.Conf, error) { return confOf(nil, text) }
		if _, err := overlay.New(t.Context(), small, jobOf("node[2-3]"), w); fmt.Sprint(err) != want || errors.As(err, new(*gres.Refusal)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestNodesOfIPv6AreReachedByIt(t *testing.T) {
	n, err := overlay.New(t.Context(), small, jobOf("node[2-3]"), world(nil, map[string]string{"node3": "fd00::3"}))
	if err != nil || n.Link.Node != addr("fd00::1") || n.Link.Peers[0].Node != addr("fd00::3") || n.Link.MTU != 1430 {
		t.Errorf("got %+v, %v", n, err)
	}
}

func TestTheJobsFaultIsARefusalAndTheNodesAnError(t *testing.T) {
	hosts := map[string]slurm.Host{
		"node1": {Addr: "10.0.0.11"}, "self": {Addr: "10.0.0.1"}, "loop": {Addr: "127.0.1.1"}, "six": {Addr: "fd00::6"}, "far": {Addr: "192.0.2.9"},
	}
	for nodes, want := range map[string]struct {
		err     string
		refused bool
	}{
		"node[1-6],node2":   {"overlay: the job has more nodes than the 6 that overlay.network 198.18.0.0/29 has addresses for", true},
		"node[0-60000]":     {"overlay: the job has more nodes than the 6 that overlay.network 198.18.0.0/29 has addresses for", true},
		"node[1":            {`overlay: parse hostlist "node[1": "node[1" has no closing bracket`, true},
		"node1":             {`overlay: the job's nodes node1 do not have this node, "node2"`, true},
		"node[1-2],nowhere": {"overlay: node nowhere has no address: no such host", true},
		"node[1-2],self":    {"overlay: node self is at 10.0.0.1, which is this node's", true},
		"node[1-2],loop":    {"overlay: node loop is at 127.0.1.1, which is this node's", true},
		"node[1-2],six":     {"overlay: node six is at fd00::6, and this node reaches others from 10.0.0.1", true},
		"node2,far":         {"overlay: reach far: network is unreachable", false},
	} {
		_, err := overlay.New(t.Context(), small, jobOf(nodes), world(hosts, nil))
		var refusal *gres.Refusal
		if fmt.Sprint(err) != want.err || errors.As(err, &refusal) != want.refused {
			t.Errorf("%s: %v, refused %t; want %+v", nodes, err, errors.As(err, &refusal), want)
		}
	}
}

func TestAnOverlayIsApartFromWhatTheNodeHas(t *testing.T) {
	range128, _ := config.ParseRange("198.18.0.128/25")
	for want, c := range map[string]struct {
		uplink config.Uplink
		node   string
	}{
		"<nil>": {config.Uplink{Kind: config.UplinkNone, Addresses: range128}, "198.18.1.1/24"},
		"overlay: its network 198.18.0.0/24 overlaps with uplink.addresses 198.18.0.128-198.18.0.255": {config.Uplink{Kind: config.UplinkVeth, Addresses: range128}, "10.0.0.1/8"},
		"overlay: its network 198.18.0.0/24 overlaps with 198.18.0.0/15, the network of eth0":         {config.Uplink{}, "198.19.0.1/15"},
	} {
		node := uplink.Host{
			Interfaces: []link.Interface{{Index: 1, Name: "lo"}, {Index: 2, Name: "eth0"}},
			Networks:   map[int][]netip.Prefix{1: {netip.MustParsePrefix("127.0.0.1/8")}, 2: {netip.MustParsePrefix(c.node)}},
		}
		site := config.Config{Uplink: c.uplink, Overlay: config.Overlay{Kind: "vxlan", Network: netip.MustParsePrefix("198.18.0.0/24")}}
		if err := overlay.CheckOverlap(site, node); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", c.node, err, want)
		}
	}
}

// With a wider tree, and where messages go by switches, slurmd hands on what srun has for others.
func TestAJobsNodesAreCalledOnlyBySrunThatCallsThemAll(t *testing.T) {
	for conf, want := range map[string]int{
		"": 6818, "SlurmdPort=7003": 7003, "TreeWidth=3\nSlurmdPort=7003": 7003, "TreeWidth=2": 0, "TreeWidth=0": 6818, "TreeWidth=65533": 6818,
		"NodeName=node[1-3] Port=7003": 7003, "NodeName=DEFAULT Port=7003\nNodeName=node[1-3]": 7003,
		"SlurmdPort=7003\nNodeName=node[1-2] Port=7003": 7003, "NodeName=node[1-3] Port=[7001-7003]": 0, "NodeName=node3 Port=7003": 0,
		"TopologyParam=Dragonfly,routeTree": 0, "RoutePlugin=route/topology": 0, "RoutePlugin=route/default\nTopologyParam=Dragonfly": 6818,
	} {
		w := world(nil, map[string]string{"node1": "10.0.0.11", "node3": "10.0.0.13"})
		w.Slurm = func() (slurm.Conf, error) { return confOf(nil, conf) }
		n, err := overlay.New(t.Context(), small, jobOf("node[1-3]"), w)
		if err != nil || n.Slurmd != want {
			t.Errorf("%q: %+v, %v; want %d", conf, n, err, want)
		}
	}
	many := small
	many.Network = netip.MustParsePrefix("198.18.0.0/24")
	w := world(map[string]slurm.Host{}, nil)
	w.Slurm = func() (slurm.Conf, error) { return nil, nil }
	w.Look = func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{addr("10.0.0.99")}, nil
	}
	for nodes, want := range map[int]int{16: 6818, 17: 0} {
		n, err := overlay.New(t.Context(), many, jobOf(fmt.Sprintf("node[1-%d]", nodes)), w)
		if err != nil || n.Slurmd != want {
			t.Errorf("%d nodes: %+v, %v; want %d", nodes, n, err, want)
		}
	}
}
