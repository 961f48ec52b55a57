package jobnet_test

import (
	"fmt"
	"net/netip"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
)

var auto = config.Uplink{Kind: config.UplinkAuto}

// wayOut is node with a default route by eth0, and a free HCA hca0 with a VLAN on it.
func wayOut(more ...link.Way) jobnet.Host {
	n := node()
	n.Interfaces[0].Loopback = true
	n.Interfaces = append(n.Interfaces, link.Interface{Index: 20, Name: "hca0", Up: true}, link.Interface{Index: 21, Name: "hca0.5", Up: true, Parent: 20})
	n.Moves = func(i link.Interface) bool { return i.Name == "hca0" }
	to := netip.MustParsePrefix
	n.Ways = append([]link.Way{
		{To: to("0.0.0.0/0"), Interfaces: []int{2}}, {To: to("10.1.0.0/16"), Interfaces: []int{2}}, {To: to("10.2.0.0/16"), Interfaces: []int{3}},
		{To: to("10.3.0.0/16"), Interfaces: []int{20}}, {To: to("10.4.0.0/16"), Interfaces: []int{21}}, {To: to("10.5.0.0/16"), Interfaces: []int{5}},
		{To: to("198.19.0.1/32"), Interfaces: []int{1<<30 | 1}}, // another job's
	}, more...)
	return n
}

func TestAnAutomaticUplinkHasTheFirstRangeThatIsNobodys(t *testing.T) {
	to := netip.MustParsePrefix
	for _, c := range []struct {
		name    string
		ways    []link.Way
		address netip.Prefix
		want    string
	}{
		{"nothing", nil, netip.Prefix{}, "198.19.0.0-198.19.0.48"},
		{"a route into the first", []link.Way{{To: to("198.19.3.0/24"), Interfaces: []int{2}}}, netip.Prefix{}, "198.19.16.0-198.19.16.48"},
		{"a route without an interface", []link.Way{{To: to("198.19.3.0/24")}}, netip.Prefix{}, "198.19.16.0-198.19.16.48"},
		{"a route over three", []link.Way{{To: to("198.19.0.0/18"), Interfaces: []int{2}}}, netip.Prefix{}, "198.19.64.0-198.19.64.48"},
		{"a network of the node's", nil, to("198.19.17.1/19"), "198.19.32.0-198.19.32.48"},
		{"the halves of the world", []link.Way{{To: to("128.0.0.0/1"), Interfaces: []int{2}}}, netip.Prefix{}, "198.19.0.0-198.19.0.48"},
		{"all of it", []link.Way{{To: to("198.18.0.0/15"), Interfaces: []int{2}}}, netip.Prefix{}, "uplink: the node has networks of its own all over 198.19.0.0/16"},
	} {
		n := wayOut(c.ways...)
		if c.address.IsValid() {
			n.Networks[3] = append(n.Networks[3], c.address)
		}
		p, err := jobnet.NewPool(auto, n)
		got := p.Addresses.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnAutomaticUplinkLeadsOutByWhatStaysOnTheNode(t *testing.T) {
	p, err := jobnet.NewPool(auto, wayOut())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range p.Leads {
		names = append(names, i.Name)
	}
	if got := fmt.Sprint(names, p.Routes); got != "[eth0 eth1] [0.0.0.0/0 10.1.0.7/32 10.1.0.8/32 10.1.0.0/16 10.2.0.7/32 10.2.0.0/16]" {
		t.Errorf("ways and routes: %s", got)
	}
	if first, err := p.Free(nil); err != nil || first.String() != "198.19.0.1" || p.Room() != 48 || p.Type() != virtual.Veth {
		t.Errorf("the first job has a %s with %s, room for %d, %v", p.Type(), first, p.Room(), err)
	}
}

func TestAnAutomaticUplinkSendsByAnInterfaceWithoutAnAddressAsItsRouteSays(t *testing.T) {
	n := wayOut()
	n.Interfaces = append([]link.Interface{{Index: 30, Name: "peer0", Up: true}}, n.Interfaces...)
	n.Interfaces = append(n.Interfaces, link.Interface{Index: 31, Name: "container0", Up: true})
	to := netip.MustParsePrefix
	n.Ways = append(n.Ways, link.Way{To: to("10.6.0.1/32"), Interfaces: []int{30}, Source: netip.MustParseAddr("10.1.0.7")},
		link.Way{To: to("10.7.0.1/32"), Interfaces: []int{31}})
	p, err := jobnet.NewPool(auto, n)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Ways); got != "[{2 10.1.0.7} {30 10.1.0.7} {3 10.2.0.7}]" {
		t.Errorf("ways %s", got)
	}
	n.Networks = nil
	if _, err := jobnet.NewPool(auto, n); err == nil || err.Error() != "uplink: the node has no IPv4 address where it reaches others" {
		t.Errorf("err %v", err)
	}
}

func TestANodeWithoutAWayOutSaysSo(t *testing.T) {
	n := wayOut()
	n.Ways = nil
	if _, err := jobnet.NewPool(auto, n); err == nil || err.Error() != "uplink: the node has no way out that its jobs could take" {
		t.Errorf("err %v", err)
	}
}

func TestAnAddressThatGoesToAJobDoesNotStay(t *testing.T) {
	n := wayOut()
	n.Networks[20] = []netip.Prefix{netip.MustParsePrefix("10.3.0.1/24")}
	n.Networks[21] = []netip.Prefix{netip.MustParsePrefix("10.4.0.1/24")} // on what goes
	for address, want := range map[string]string{
		"10.3.0.1": "10.3.0.1 is on hca0, which jobs can have", "10.4.0.1": "10.4.0.1 is on hca0.5, which jobs can have", "10.2.0.7": "<nil>",
	} {
		if got := fmt.Sprint(n.Stays(netip.MustParseAddr(address))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
