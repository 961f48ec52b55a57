package snapshot_test

import (
	"net/netip"
	"testing"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

func TestTheInterfaceWithTheDefaultRouteIsTheUplink(t *testing.T) {
	netnstest.Slow(t)
	const others = "ip link add other type veth peer name otherfar; ip link set other up; ip link set otherfar up; ip addr add 10.1.0.2/24 dev other\n"
	tests := []struct {
		name, route string
		want        bool
	}{
		{"no route", `true`, false},
		{"a route to a network", `ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0`, false},
		{"a default route of another table", `ip route add default via 10.0.0.1 dev hca0 table 100`, false},
		{"the default route", `ip route add default via 10.0.0.1 dev hca0`, true},
		{"the default route over others, too", others + `ip route add default nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev other`, true},
		{"the default route of another from an address of this", others + `ip route add default via 10.1.0.1 dev other src 10.0.0.2`, true},
		{"the default route over a child", `ip link add link hca0 name child5 type macvlan mode bridge; ip link set child5 up; ip addr add 10.5.0.2/24 dev child5; ip route add default via 10.5.0.1`, true},
		{"an IPv6 default route", `ip -6 route add default via fd00::1 dev hca0`, true},
		{"a default route of each family", `ip route add default via 10.0.0.1 dev hca0; ip -6 route add default via fd00::1 dev hca0`, true},
		{"an IPv4 default route of another and an IPv6 one of this", others + `ip route add default via 10.1.0.1 dev other; ip -6 route add default via fd00::1 dev hca0`, true},
		{"a default route of another", others + `ip route add default via 10.1.0.1 dev other`, false},
		// It is the way as soon as the other one fails.
		{"a default route that another is preferred to", others + `ip route add default via 10.0.0.1 dev hca0 metric 200; ip route add default via 10.1.0.1 dev other metric 100`, true},
		{"an IPv6 one that another is preferred to", others + `ip -6 addr add fd01::2/64 dev other nodad; ip -6 route add default via fd00::1 dev hca0 metric 200; ip -6 route add default via fd01::1 dev other metric 100`, true},
		{"two default routes of one metric", others + `ip route add default via 10.1.0.1 dev other; ip route append default via 10.0.0.1 dev hca0`, true},
		{"a default route without a gateway", `ip route add default dev hca0 scope link`, true},
		{"one with a metric", `ip route add default dev hca0 scope link metric 50`, true},
		{"an IPv6 default route over others, too", others + `ip -6 addr add fd01::2/64 dev other nodad; ip -6 route add default nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev other`, true},
		{"an IPv6 default route of another table", `ip -6 route add default via fd00::1 dev hca0 table 100`, false},
		{"a default route by a next hop object", `ip nexthop add id 7 via 10.0.0.1 dev hca0; ip route add default nhid 7`, true},
		{"an IPv6 default route by a next hop object", `ip nexthop add id 7 via fd00::1 dev hca0; ip -6 route add default nhid 7`, true},
		{"a default route by a group of them", others + `ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 via 10.1.0.1 dev other; ip nexthop add id 9 group 7/8; ip route add default nhid 9`, true},
		{"one of which the routes do not tell the interface", `sysctl -qw net.ipv4.nexthop_compat_mode=0; ip nexthop add id 7 via 10.0.0.1 dev hca0; ip route add default nhid 7`, true},
		{"a network that begins with zeros", `ip route add 0.0.0.0/8 via 10.0.0.1 dev hca0; ip -6 route add ::/8 via fd00::1 dev hca0`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run("ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad\n" + tt.route)
			in(t, b.node, func(c *snapshot.Conn) error {
				index := find(t, c, "hca0").Index
				s, err := c.Settings(index)
				if err != nil {
					return err
				}
				got, err := c.CarriesDefaultRoute(index, s)
				if got != tt.want {
					t.Errorf("CarriesDefaultRoute is %v, wanted %v", got, tt.want)
				}
				return err
			})
		})
	}
}

func TestAnInterfaceCarriesItsAddressesAndThoseOfWhatStandsOnIt(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip addr add 10.0.0.3/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip link add link hca0 name child5 type macvlan mode bridge; ip link set child5 up; ip addr add 10.5.0.2/24 dev child5
ip link add link hca0 name child6 type macvlan mode bridge; ip link add br6 type bridge; ip link set child6 master br6; ip link set br6 up; ip addr add 10.6.0.2/24 dev br6
ip link add other type veth peer name otherfar; ip link set other up; ip addr add 10.1.0.2/24 dev other`)
	for addr, want := range map[string]bool{
		"10.0.0.2": true, "10.0.0.3": true, "fd00::2": true, "10.5.0.2": true, "10.6.0.2": true,
		"10.0.0.9": false, "10.1.0.2": false, "127.0.0.1": false,
	} {
		in(t, b.node, func(c *snapshot.Conn) error {
			got, err := c.Carries(find(t, c, "hca0").Index, netip.MustParseAddr(addr))
			if got != want {
				t.Errorf("Carries %s: %v, wanted %v", addr, got, want)
			}
			return err
		})
	}
}

func TestAnInterfaceLeadsWhereItsRoutesAndThoseOfItsChildrenGo(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip link add link hca0 name child5 type macvlan mode bridge; ip link set child5 up; ip addr add 10.5.0.2/24 dev child5
ip link add link hca0 name child6 type macvlan mode bridge; ip link set child6 up; ip link add br6 type bridge; ip link set child6 master br6; ip link set br6 up; ip addr add 10.6.0.2/24 dev br6
ip link add other type veth peer name otherfar; ip link set other up; ip link set otherfar up; ip addr add 10.1.0.2/24 dev other`)
	for addr, want := range map[string]bool{
		"10.0.0.9": true, "fd00::9": true, "10.5.0.9": true, "10.6.0.9": true, // itself, its child, and a bridge of one
		"10.0.0.2": false, // an address of the node is reached through the loopback interface
		"10.1.0.9": false, "192.0.2.1": false, "fd77::1": false,
	} {
		in(t, b.node, func(c *snapshot.Conn) error {
			got, err := c.Leads(find(t, c, "hca0").Index, netip.MustParseAddr(addr))
			if got != want {
				t.Errorf("Leads to %s: %v, wanted %v", addr, got, want)
			}
			return err
		})
	}
}
