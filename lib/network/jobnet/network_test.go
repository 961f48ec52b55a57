package jobnet_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/slurm"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// world has a resolver that knows some names, and ways from 10.0.0.1 on eth0 and fd00::1 on eth6.
func world(hosts map[string]slurm.Host, names map[string]string) jobnet.World {
	return jobnet.World{
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
		Way: func(to netip.Addr) (jobnet.Way, error) {
			switch {
			case to == addr("192.0.2.9"):
				return jobnet.Way{}, errors.New("network is unreachable")
			case to.Is6():
				return jobnet.Way{From: addr("fd00::1"), MTU: 1430, Index: 3}, nil
			}
			return jobnet.Way{From: addr("10.0.0.1"), MTU: 1450, Index: 2}, nil
		},
		Here: func(a netip.Addr) (virtual.Here, bool) {
			here, is := map[netip.Addr]virtual.Here{
				addr("127.0.1.1"): {Name: "lo", Index: 1, Address: netip.MustParsePrefix("127.0.0.1/8")},
				addr("10.0.0.1"):  {Name: "eth0", Index: 2, MTU: 1500, Address: netip.MustParsePrefix("10.0.0.1/24")},
				addr("10.5.0.1"):  {Name: "mgmt0", Index: 5, MTU: 9000, Address: netip.MustParsePrefix("10.5.0.1/16")},
				addr("fd00::1"):   {Name: "eth6", Index: 3, MTU: 1500, Address: netip.MustParsePrefix("fd00::1/64")},
			}[a]
			return here, is
		},
	}
}

// confOf returns a slurm.conf with some nodes, and more text.
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

var vxlan = config.Overlay{Kind: "vxlan", Port: 489}

func jobOf(nodes string) job.Job { return job.Job{ID: 1<<24 + 7, Node: "node2", Nodes: nodes} }

func TestANodeOfAJobIsWhatItIsOnTheNode(t *testing.T) {
	hosts := map[string]slurm.Host{"node1": {Addr: "10.0.0.11"}, "node2": {Addr: "10.0.0.1"}, "node3": {Addr: "three"}, "login": {Hostname: "login.example.org"}}
	names := map[string]string{"three": "10.0.0.13", "login.example.org": "fd00::9 10.0.0.14"}
	n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf("node[1-3],login"), world(hosts, names))
	if err != nil {
		t.Fatal(err)
	}
	want := virtual.OverlayOf(7)
	want.Name, want.Place, want.Port, want.Node, want.MTU, want.Path = "eth0", 2, 489, addr("10.0.0.1"), 1500, 1450
	want.Address = netip.MustParsePrefix("10.0.0.1/24")
	for _, a := range []string{"10.0.0.11", "10.0.0.13", "10.0.0.14"} {
		want.Peers = append(want.Peers, virtual.Peer{Address: addr(a), Node: addr(a)})
	}
	if !reflect.DeepEqual(n.Link, want) || n.Address() != addr("10.0.0.1") {
		t.Errorf("got %+v, want %+v", n.Link, want)
	}
	if last := (jobnet.Node{Name: "login", Address: addr("10.0.0.14")}); len(n.Nodes) != 4 || n.Nodes[3] != last {
		t.Errorf("nodes %v, the last is to be %v", n.Nodes, last)
	}
	named := vxlan
	named.Interface = "job0"
	if n, err := jobnet.NewNetwork(t.Context(), named, jobOf("node[1-2]"), world(hosts, names)); err != nil || n.Link.Name != "job0" {
		t.Errorf("with a name: %+v, %v", n, err)
	}
}

func TestComponentsOfAHeterogeneousJobAreOneNetworkUnlessTheyShareANode(t *testing.T) {
	hosts := map[string]slurm.Host{"node1": {Addr: "10.0.0.11"}, "node2": {Addr: "10.0.0.1"}, "node3": {Addr: "10.0.0.13"}, "node4": {Addr: "10.0.0.14"}}
	for _, c := range []struct {
		id     uint32
		others []string
		peers  string
		net    uint32
		leader uint32
	}{
		{10, nil, "[10.0.0.11]", 10, 0},
		{10, []string{"node3", "node4"}, "[10.0.0.11 10.0.0.13 10.0.0.14]", 10, 0},
		{11, []string{"node[3-4]"}, "[10.0.0.11 10.0.0.13 10.0.0.14]", 10, 10},
		{11, nil, "[10.0.0.11]", 11, 0},
		{11, []string{"node[2-3]"}, "[10.0.0.11]", 11, 0},
		{11, []string{"node3", "node[3-4]"}, "[10.0.0.11]", 11, 0},
	} {
		j := jobOf("node[1-2]")
		j.ID, j.Leader, j.Others = c.id, 10, c.others
		n, err := jobnet.NewNetwork(t.Context(), vxlan, j, world(hosts, nil))
		if err != nil {
			t.Fatal(err)
		}
		var peers []netip.Addr
		for _, p := range n.Link.Peers {
			peers = append(peers, p.Address)
		}
		if got := fmt.Sprint(peers); got != c.peers || n.Link.ID != virtual.OverlayOf(c.net).ID || n.Leader != c.leader {
			t.Errorf("component %d beside %v: %s, network %d, leader %d", c.id, c.others, got, n.Link.ID, n.Leader)
		}
	}
}

// Slurm prints texts of the job's user among its own: see source.Companions.
func TestWhatAUserSaysOfOtherComponentsNamesNoHostBeyondSlurmConfAndIsNoFaultOfTheNode(t *testing.T) {
	hosts := map[string]slurm.Host{"node2": {Addr: "10.0.0.1"}, "nowhere": {Addr: "192.0.2.9"}, "nameless": {Addr: "who"}, "six": {Addr: "fd00::6"}}
	lists := [][]string{
		{"240.0.0.1"}, {"2001:db8::1"}, {"203.0.113.9"}, {"10.[64-65].[0-127].[0-254]"}, {strings.Repeat("a", 247) + "[0-65535]"},
		{"node["}, {"node[1-2]"}, {"nowhere"}, {"nowhere,evil"}, {"nameless"}, {"six"}, {"0.0.0.0"}, {"127.0.0.1"},
	}
	for _, others := range lists {
		j := jobOf("node2")
		j.ID, j.Leader, j.Others = 11, 10, others
		w := world(hosts, nil)
		look := w.Look
		w.Look = func(ctx context.Context, name string) ([]netip.Addr, error) {
			if name != "who" && name != "localhost" {
				t.Errorf("%.40s: the resolver is asked for %s", others, name)
			}
			return look(ctx, name)
		}
		_, err := jobnet.NewNetwork(t.Context(), vxlan, j, w)
		var refusal *gres.Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("%.40s: %v, wanted a refusal", others, err)
		}
	}
	j := jobOf("node2")
	j.ID, j.Leader = 11, 10
	for range 1000 {
		j.Others = append(j.Others, "nowhere")
	}
	if n, err := jobnet.NewNetwork(t.Context(), vxlan, j, world(hosts, nil)); err != nil || len(n.Nodes) != 1 {
		t.Errorf("with a node in many lists: %+v, %v", n, err)
	}
}

// As Debian has it in /etc/hosts: then the node has the address by which it reaches the others.
func TestANodeWhoseNameMeansItsLoopbackHasTheAddressByWhichItReachesOthers(t *testing.T) {
	for nodes, from := range map[string]string{"node[1-2]": "", "node2": "", "node2,login": "", "node2,six": "fd00::1"} {
		n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf(nodes), world(nil, map[string]string{"node1": "10.0.0.11", "node2": "127.0.1.1", "login": "10.0.0.14", "six": "fd00::6"}))
		if err != nil || n.Address() != addr(cmp.Or(from, "10.0.0.1")) {
			t.Errorf("%s: %+v, %v", nodes, n, err)
		}
	}
}

func TestTheSiteSaysByWhichNamesNodesReachEachOther(t *testing.T) {
	c := vxlan
	c.Underlay = "{node}-ib.example.org"
	hosts := map[string]slurm.Host{"node1": {Addr: "10.5.0.11"}, "node2": {Addr: "10.5.0.1"}, "node3": {Addr: "three"}}
	names := map[string]string{"three": "10.5.0.13", "node1-ib.example.org": "10.0.0.11", "node2-ib.example.org": "10.0.0.1", "node3-ib.example.org": "10.0.0.13"}
	n, err := jobnet.NewNetwork(t.Context(), c, jobOf("node[1-3]"), world(hosts, names))
	want := []virtual.Peer{{Address: addr("10.5.0.11"), Node: addr("10.0.0.11")}, {Address: addr("10.5.0.13"), Node: addr("10.0.0.13")}}
	if err != nil || !reflect.DeepEqual(n.Link.Peers, want) || n.Link.Name != "mgmt0" || n.Address() != addr("10.5.0.1") || n.Link.Node != addr("10.0.0.1") || n.Link.Path != 1450 {
		t.Errorf("got %+v, %v, want %+v", n, err, want)
	}
	if _, err := jobnet.NewNetwork(t.Context(), c, jobOf("node[1-3]"), world(hosts, map[string]string{"three": "10.5.0.13"})); fmt.Sprint(err) != "overlay: node node1 has no address: no such host" {
		t.Errorf("got %v", err)
	}
}

func TestAJobWithoutNodesOrAnAddressHasNoNetwork(t *testing.T) {
	if n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf(""), jobnet.World{}); n != nil || err != nil {
		t.Errorf("without a list: %+v, %v", n, err)
	}
	w := world(nil, nil)
	w.Way = func(netip.Addr) (jobnet.Way, error) { return jobnet.Way{}, errors.New("network is unreachable") }
	if n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf("node2"), w); n != nil || err != nil {
		t.Errorf("without an address: %+v, %v", n, err)
	}
}

func TestNodesOfIPv6HaveTheirAddressesOfIt(t *testing.T) {
	n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf("node[2-3]"), world(nil, map[string]string{"node2": "fd00::1", "node3": "fd00::3"}))
	if err != nil || n.Address() != addr("fd00::1") || n.Link.Node != addr("fd00::1") || n.Link.Peers[0].Node != addr("fd00::3") || n.Link.Path != 1430 {
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
		"node[0-99999999]":  {`overlay: parse hostlist "node[0-99999999]": "0-99999999" is no range of up to 65536 numbers`, true},
		"node[1":            {`overlay: parse hostlist "node[1": "node[1" has no closing bracket`, true},
		"node1":             {`overlay: the job's nodes node1 do not have this node, "node2"`, true},
		"node[1-2],nowhere": {"overlay: node nowhere has no address: no such host", true},
		"node[1-2],self":    {"overlay: node self is at 10.0.0.1, which is this node's", true},
		"node[1-2],loop":    {"overlay: node loop is at 127.0.1.1, which is this node's", true},
		"node[1-2],six":     {"overlay: node six is at fd00::6, and this node reaches others from 10.0.0.1", true},
		"node2,far":         {"overlay: reach far: network is unreachable", false},
	} {
		_, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf(nodes), world(hosts, nil))
		var refusal *gres.Refusal
		if fmt.Sprint(err) != want.err || errors.As(err, &refusal) != want.refused {
			t.Errorf("%s: %v, refused %t; want %+v", nodes, err, errors.As(err, &refusal), want)
		}
	}
}

func TestSlurmConfSaysWhoCallsSrunAndWhere(t *testing.T) {
	w := world(nil, map[string]string{"node2": "10.0.0.1", "ctl2": "fd00::99 10.0.0.99"})
	w.Slurm = func() (slurm.Conf, error) {
		return confOf(nil, "SlurmctldHost=ctl1(10.0.0.98)\nSlurmctldHost=ctl2\nSlurmctldHost=lost\nSrunPortRange=60001-63000\nNodeName=node[4-6] NodeAddr=10.0.1.[4-6]\nNodeName=node7 NodeAddr=named\nNodeName=node[10-11] NodeAddr=10.1.[4-5].7\nNodeName=node[12-13] NodeAddr=10.0.2.[09-10]\nNodeName=node[14-15] NodeAddr=10.0.3.1[9-10]\nNodeName=node8 NodeAddr=127.0.0.1\n")
	}
	n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf("node2"), w)
	if err != nil || fmt.Sprint(n.Controllers, n.Cluster, n.Srun) != "[10.0.0.98 10.0.0.99] [[10.0.1.4 10.0.1.6] [10.1.4.7 10.1.4.7] [10.1.5.7 10.1.5.7] [10.0.2.10 10.0.2.10] [10.0.3.19 10.0.3.19] [10.0.3.110 10.0.3.110]] 60001-63000" {
		t.Errorf("got %+v, %v", n, err)
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
		n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf("node[1-3]"), w)
		if err != nil || n.Slurmd != want {
			t.Errorf("%q: %+v, %v; want %d", conf, n, err, want)
		}
	}
	w := world(map[string]slurm.Host{}, nil)
	w.Slurm = func() (slurm.Conf, error) { return nil, nil }
	w.Look = func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{addr("10.0.0.99")}, nil
	}
	for nodes, want := range map[int]int{16: 6818, 17: 0} {
		n, err := jobnet.NewNetwork(t.Context(), vxlan, jobOf(fmt.Sprintf("node[1-%d]", nodes)), w)
		if err != nil || n.Slurmd != want {
			t.Errorf("%d nodes: %+v, %v; want %d", nodes, n, err, want)
		}
	}
}
