package lease

import (
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// Two jobs that have an HCA each.
var (
	rail0 = testLease{testJob, "hca0"}
	rail1 = testLease{testJob + 1, "hca1"}
)

// refuses fails unless a prolog refuses an HCA with a reason, and the node is as it was.
func (l testLease) refuses(t *testing.T, node *netnstest.NS, state, want string) {
	t.Helper()
	before := testPicture(node)
	out, err := l.command(node, state, "prolog", never).CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the prolog of %s: %v: %s, wanted %q", l.hcas, err, out, want)
	}
	l.run(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

// third adds an HCA and an interface that no job gets.
const third = `
ip link add hca2 type veth peer name farthest; ip link set farthest up; ip link set hca2 up; ip addr add 10.2.0.2/24 dev hca2
ip link add eth0 type veth peer name switch; ip link set switch up; ip link set eth0 up; ip addr add 10.3.0.2/24 dev eth0; ip -6 addr add fd03::2/64 dev eth0 nodad
until ip -br link show eth0 | grep -q ' UP '; do sleep 0.02; done
`

func TestWhatAnHCASharesWithOneThatAnotherJobCanHaveIsRefused(t *testing.T) {
	netnstest.Slow(t)
	const (
		children = `ip link add v0 link hca0 type macvlan mode bridge; ip link add v1 link hca1 type macvlan mode bridge; ip link set v0 up; ip link set v1 up; ip addr add 10.10.0.2/24 dev v0; ip addr add 10.11.0.2/24 dev v1
`
		objects = `ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 via 10.1.0.1 dev hca1
`
	)
	for name, c := range map[string]struct {
		setup, rail0, rail1 string // what the prologs of both say
	}{
		"a route over both":  {"ip route add 172.17.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev hca1", "route 172.17.0.0/16 of hca0 needs hca1, too", "route 172.17.0.0/16 of hca1 needs hca0, too"},
		"a route of IPv6":    {"ip -6 route add fd17::/64 nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev hca1", "route fd17::/64 of hca0 needs hca1, too", "route fd17::/64 of hca1 needs hca0, too"},
		"a group of objects": {objects + "ip nexthop add id 9 group 7/8", "next hop object 9 of hca0 needs hca1, too", "next hop object 9 of hca1 needs hca0, too"},
		"a route by the other's object from an address": {objects + "ip route add 172.18.0.0/16 nhid 8 src 10.0.0.2", "route 172.18.0.0/16 of hca0 needs hca1, too", "route 172.18.0.0/16 of hca1 needs hca0, too"},
		"a route from an address of the other":          {"ip route add 172.19.0.0/16 via 10.0.0.1 dev hca0 src 10.1.0.2", "route 172.19.0.0/16 via 10.0.0.1 of hca0 needs hca1, too", "route 172.19.0.0/16 via 10.0.0.1 of hca1 needs hca0, too"},
		"routes over children of both":                  {children + "ip route add 172.20.0.0/16 nexthop via 10.10.0.1 dev v0 nexthop via 10.11.0.1 dev v1", "route 172.20.0.0/16 of v0 needs hca1, too", "route 172.20.0.0/16 of v1 needs hca0, too"},
		"a route over a child and the other":            {children + "ip route add 172.21.0.0/16 nexthop via 10.10.0.1 dev v0 nexthop via 10.1.0.1 dev hca1", "route 172.21.0.0/16 of v0 needs hca1, too", "route 172.21.0.0/16 of hca1 needs hca0, too"},
		"an address of a child of the other":            {children + "ip route add 172.22.0.0/16 via 10.0.0.1 dev hca0 src 10.11.0.2", "route 172.22.0.0/16 via 10.0.0.1 of hca0 needs hca1, too", "route 172.22.0.0/16 via 10.0.0.1 of v1 needs hca0, too"},
	} {
		t.Run(name, func(t *testing.T) {
			node, state := apartBed(t)
			node.Run(c.setup)
			rail0.refuses(t, node, state, c.rail0)
			rail1.refuses(t, node, state, c.rail1)
			before := testPicture(node)
			whole.run(t, node, state, "prolog", never) // one job that has both
			if out := whole.says(t, node, state, "epilog"); out != "" {
				t.Errorf("the epilog says %q", out)
			}
			testSame(t, node, state, before)
		})
	}
}

func TestARouteFromAnAddressOfAThirdHCAIsRefusedWhereverThatOneIs(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	node.Run(third + "ip -6 addr add fd02::2/64 dev hca2 nodad; until ip -6 route show table local | grep -q fd02::2; do sleep 0.02; done; ip -6 route add fd19::/64 via fd00::1 dev hca0 src fd02::2")
	before := testPicture(node)
	rail0.refuses(t, node, state, "route fd19::/64 via fd00::1 of hca0 needs hca2, too")
	rail2 := testLease{testJob + 2, "hca2"}
	rail2.run(t, node, state, "prolog", never)
	out, err := rail0.command(node, state, "prolog", never).CombinedOutput()
	if want := "route fd19::/64 via fd00::1 of hca0 is from fd02::2, which the node does not have now"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the prolog: %v: %s, wanted %q", err, out, want)
	}
	for _, l := range []testLease{rail0, rail2} {
		if out := l.says(t, node, state, "epilog"); out != "" {
			t.Errorf("the epilog of %s says %q", l.hcas, out)
		}
	}
	testSame(t, node, state, before)
}

func TestWhatAnHCASharesWithAnInterfaceThatNoJobGetsComesBack(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	node.Run(third + `ip route add 172.17.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.3.0.1 dev eth0; ip -6 route add fd17::/64 nexthop via fd00::1 dev hca0 nexthop via fd03::1 dev eth0
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 via 10.3.0.1 dev eth0; ip nexthop add id 9 group 7/8; ip route add 172.18.0.0/16 nhid 9
ip route add 172.19.0.0/16 via 10.3.0.1 dev eth0 src 10.0.0.2; ip route add 172.20.0.0/16 via 10.0.0.1 dev hca0 src 10.3.0.2`)
	before := testPicture(node)
	rail0.run(t, node, state, "prolog", never)
	if out := rail0.says(t, node, state, "epilog"); out != "" {
		t.Errorf("the epilog says %q", out)
	}
	testSame(t, node, state, before)
}

// The kernel keeps what is from an address as long as any interface has it.
func TestOneAddressOfSeveralInterfacesIsNothingThatTheyShare(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	node.Run(third + `for i in lo hca0 hca1; do ip addr add 10.9.9.9/32 dev $i; done
ip route add 172.17.0.0/16 via 10.0.0.1 dev hca0 src 10.9.9.9; ip route add 172.18.0.0/16 via 10.1.0.1 dev hca1 src 10.9.9.9; ip route add 172.19.0.0/16 via 10.3.0.1 dev eth0 src 10.9.9.9`)
	before := testPicture(node)
	for _, ends := range [][]testLease{{rail0, rail1}, {rail1, rail0}} {
		for _, l := range []testLease{rail0, rail1} {
			l.run(t, node, state, "prolog", never)
		}
		for _, l := range ends {
			if out := l.says(t, node, state, "epilog"); out != "" {
				t.Errorf("the epilog of %s says %q", l.hcas, out)
			}
		}
		testSame(t, node, state, before)
	}
}

// A daemon gives its routes again when it sees the interface, and may give them otherwise.
func TestARoutingDaemonsRoutesAreTheJobsAndOnTheNodeTheDaemons(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	before := testPicture(node)
	node.Run(`ip route add 172.17.0.0/16 proto bird nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev hca1; ip route add 172.18.0.0/16 via 10.0.0.1 dev hca0 proto bird
ip nexthop add id 7 via 10.0.0.1 dev hca0 proto zebra; ip nexthop add id 8 via 10.1.0.1 dev hca1 proto zebra; ip nexthop add id 9 group 7/8 proto zebra; ip route add 172.19.0.0/16 nhid 9 proto ospf; ip route add 172.20.0.0/16 nhid 7 proto bgp`)
	rail0.run(t, node, state, "prolog", never)
	routes := node.Run("nsenter --net=" + state + "/jobs/4711/netns ip route")
	for _, want := range []string{"172.18.0.0/16 via 10.0.0.1", "172.20.0.0/16 nhid 7"} {
		if !strings.Contains(routes, want) {
			t.Errorf("the job has no %s:\n%s", want, routes)
		}
	}
	// By then the daemon has taken away what needed the interface.
	node.Run("for to in 172.17.0.0/16 172.19.0.0/16; do ip route del $to 2>/dev/null || true; done; ip nexthop del id 9 2>/dev/null || true; ip nexthop del id 8")
	if out := rail0.says(t, node, state, "epilog"); out != "" {
		t.Errorf("the epilog says %q", out)
	}
	testSame(t, node, state, before)
}

func TestWhatIsByARoutingDaemonsNextHopObjectsIsRefused(t *testing.T) {
	for want, setup := range map[string]string{
		"route 172.17.0.0/16 of hca0 is by a next hop object of a routing daemon's": "ip route add 172.17.0.0/16 nhid 7",
		"next hop object 9 of hca0 has members that are a routing daemon's":         "ip nexthop add id 9 group 7",
	} {
		node, state := apartBed(t)
		node.Run("ip nexthop add id 7 via 10.0.0.1 dev hca0 proto zebra; " + setup)
		rail0.refuses(t, node, state, want)
	}
}

// It loses its carrier with the child, and with that what the kernel then removes.
func TestWhatStandsOnAChildIsRefused(t *testing.T) {
	netnstest.Slow(t)
	for name, setup := range map[string]string{
		"a bridge of a macvlan":           "ip link add br0 type bridge; ip link set mv0 master br0; ip link set br0 up; ip addr add 10.6.0.2/24 dev br0; ip nexthop add id 7 via 10.6.0.1 dev br0",
		"a bridge of a VLAN":              "ip link add br0 type bridge; ip link add v0 link hca0 type vlan id 5; ip link set v0 up master br0; ip link set br0 up",
		"a bridge of a VLAN's VLAN":       "ip link add br0 type bridge; ip link add v0 link hca0 type vlan id 5; ip link add v1 link v0 type vlan id 6; ip link set v0 up; ip link set v1 up master br0",
		"a bond of a VLAN":                "ip link add br0 type bond mode active-backup; ip link add v0 link hca0 type vlan id 5; ip link set v0 master br0",
		"a bridge of a VXLAN over a VLAN": "ip link add br0 type bridge; ip link add v0 link hca0 type vlan id 5; ip link set v0 up; ip link add x0 type vxlan id 7 dev v0 dstport 4789 remote 10.0.0.7; ip link set x0 up master br0",
	} {
		t.Run(name, func(t *testing.T) {
			node, state := apartBed(t)
			// A kernel without some kind of interface has none to refuse.
			if out, err := exec.Command("nsenter", "--net="+node.Path, "sh", "-ec", setup).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, out)
			}
			const has = "ip -br addr; ip route; ip nexthop"
			before := node.Run(has)
			out, err := rail0.command(node, state, "prolog", never).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "br0 stands on ") || node.Run(has) != before {
				t.Errorf("the prolog: %v: %s", err, out)
			}
		})
	}
}

// The kernel asks the rules whether a gateway can be reached when a route by it is added.
func TestRoutesComeBackThoughARuleForbidsTheirGateway(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	node.Run(`ip nexthop add id 7 via 10.0.0.1 dev hca0; ip route add 172.18.0.0/16 nhid 7
ip rule add to 10.0.0.0/24 prohibit pref 50; ip rule add to 10.0.0.1 blackhole pref 51; ip rule add unreachable pref 30000; ip rule add oif hca0 prohibit pref 40`)
	before := testPicture(node)
	rail0.run(t, node, state, "prolog", never)
	if out := rail0.says(t, node, state, "epilog"); out != "" {
		t.Errorf("the epilog says %q", out)
	}
	testSame(t, node, state, before)
	// A run that was killed has left its own.
	rail0.run(t, node, state, "prolog", never)
	node.Run("ip rule add to 10.0.0.1 oif hca0 lookup main pref 0 protocol 103")
	if out := rail0.says(t, node, state, "epilog"); out != "" {
		t.Errorf("the epilog says %q", out)
	}
	testSame(t, node, state, before)
}
