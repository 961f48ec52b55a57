package jobnet_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/gres"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
)

// node has eth0 in 10.1.0.0/16, where it is host 7, eth1 in 10.2.0.0/16, and an
// uplink of another job.
func node() jobnet.Host {
	network := netip.MustParsePrefix
	return jobnet.Host{
		Interfaces: []link.Interface{
			{Index: 1, Name: "lo", Up: true}, {Index: 2, Name: "eth0", Up: true}, {Index: 3, Name: "eth1", Up: true},
			{Index: 4, Name: "iv0", Up: true, ID: link.ID{Kind: "ipvlan"}, Parent: 3}, {Index: 5, Name: "down0"},
			{Index: 6, Name: "ib0", Up: true, ID: link.ID{Kind: "ipoib"}}, {Index: 7, Name: "bare0", Up: true},
			{Index: 1<<30 | 1, Name: "job7", Up: true, ID: link.ID{Kind: "veth"}},
		},
		Networks: map[int][]netip.Prefix{
			1: {network("127.0.0.1/8")}, 2: {network("10.1.0.7/16"), network("10.1.0.8/16")}, 3: {network("10.2.0.7/16")},
			1<<30 | 1: {network("10.8.0.0/32")},
		},
	}
}

func addresses(text string) config.Range {
	r, err := config.ParseRange(text)
	if err != nil {
		panic(err)
	}
	return r
}

func TestAPoolHasWhatNobodyElseHas(t *testing.T) {
	for _, c := range []struct {
		name        string
		site        config.Uplink
		first, last string
		room        int
	}{
		{"a share of many nodes'", config.Uplink{Kind: "macvlan", Parent: "eth0", Share: 2, Addresses: addresses("10.1.128.0/17")}, "10.1.128.14", "10.1.128.15", 2},
		{"neither the node's own nor the gateway", config.Uplink{Kind: "macvlan", Parent: "eth0", Gateway: netip.MustParseAddr("10.1.0.9"), Addresses: addresses("10.1.0.6-10.1.0.11")}, "10.1.0.6", "10.1.0.11", 3},
		{"neither network nor broadcast", config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.1.255.254-10.1.255.255")}, "10.1.255.254", "10.1.255.254", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := jobnet.NewPool(c.site, node())
			if err != nil {
				t.Fatal(err)
			}
			var taken []netip.Addr
			for {
				a, err := p.Free(taken)
				if err != nil {
					break
				}
				if slices.Contains(taken, a) {
					t.Fatalf("%s is given twice", a)
				}
				taken = append(taken, a)
			}
			if len(taken) != c.room || p.Room() != c.room || taken[0].String() != c.first || taken[len(taken)-1].String() != c.last {
				t.Errorf("room for %d, said %d: %v", len(taken), p.Room(), taken)
			}
		})
	}
}

func TestWhatCannotBeIsSaidBeforeAnythingIsMade(t *testing.T) {
	for _, c := range []struct {
		name      string
		site      config.Uplink
		err, hint string
	}{
		{"no parent", config.Uplink{Kind: "macvlan", Parent: "eth9"}, "uplink: the node has no interface eth9", "correct uplink.parent: `ip link` lists the interfaces; an alternative name is not enough"},
		{"parent down", config.Uplink{Kind: "macvlan", Parent: "down0"}, "uplink: down0 is down", "ip link set down0 up"},
		{"macvlan beside an ipvlan", config.Uplink{Kind: "macvlan", Parent: "eth1"}, "uplink: eth1 has ipvlan interfaces on it, and cannot have macvlans besides", `take another parent, or kind = "auto"`},
		{"macvlan on IPoIB", config.Uplink{Kind: "macvlan", Parent: "ib0"}, "uplink: ib0 is not Ethernet, on which a macvlan stands", `take another parent, or kind = "auto"`},
		{"addresses of another network", config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.3.0.0/28")}, "uplink: the addresses 10.3.0.0-10.3.0.15 are not in a network of eth0", "take addresses of the network that eth0 is in, outside of what DHCP deals"},
		{"a gateway of another network", config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.1.3.0/28"), Gateway: netip.MustParseAddr("10.3.0.1")}, "uplink: the gateway 10.3.0.1 is not in the network 10.1.0.0/16 of eth0", "correct uplink.gateway"},
		{"another network of the node's", config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.2.3.0/28")}, "uplink: the addresses 10.2.3.0-10.2.3.15 overlap with 10.2.0.0/16, the network of eth1", "take addresses for uplink.addresses that nobody else has"},
		{"a range around one", config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.0.0.0/8")}, "uplink: the addresses 10.0.0.0-10.255.255.255 overlap with 10.2.0.0/16, the network of eth1", "take addresses for uplink.addresses that nobody else has"},
		{"a share at the end", config.Uplink{Kind: "macvlan", Parent: "eth0", Share: 8, Addresses: addresses("10.1.8.0/26")}, "", ""},
		{"a share one beyond the end", config.Uplink{Kind: "macvlan", Parent: "eth0", Share: 8, Addresses: addresses("10.1.8.0-10.1.8.62")}, "uplink: the share of 10.1.0.7/16 in 10.1.8.0-10.1.8.62 is beyond its end", "make uplink.addresses larger or uplink.share smaller: each host number of the network has a share"},
		{"a share of a node without an address", config.Uplink{Kind: "macvlan", Parent: "bare0", Share: 8, Addresses: addresses("10.8.0.0/26")}, "uplink: bare0 has no IPv4 address, by which the node's share is found", "give it one, or leave uplink.share out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := jobnet.NewPool(c.site, node())
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != c.err || hint.Of(err) != c.hint {
				t.Errorf("got  %s\n     %s\nwant %s\n     %s", text, hint.Of(err), c.err, c.hint)
			}
		})
	}
}

func TestAJobsBlockHasNoPortOfTheNodesAndJobsWithABlockComeFirst(t *testing.T) {
	for _, c := range []struct {
		name  string
		kept  []virtual.Ports
		first []int // of the blocks of the first jobs
		few   int   // the first of the last job's few ports
	}{
		{"a node as the kernel makes it", []virtual.Ports{{First: 32768, Last: 60999}}, []int{16384, 18432, 20480, 22528, 24576, 26624, 28672, 30720, 61440, 0, 0}, 63488 + 9*64},
		{"one with services", []virtual.Ports{{First: 32768, Last: 60999}, {First: 18431, Last: 18431}, {First: 27000, Last: 27000}}, []int{18432, 20480, 22528, 24576, 28672, 30720, 61440, 0}, 63488},
		{"one that chooses all ports", []virtual.Ports{{First: 1024, Last: 65535}}, []int{0, 0}, 0},
		{"one that reserves some", []virtual.Ports{{First: 1024, Last: 19999}, {First: 22528, Last: 65535}}, []int{20480, 0}, 0},
		{"one that chooses none of them", []virtual.Ports{{First: 1024, Last: 16383}}, []int{16384, 18432}, 63488 + 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := wayOut()
			n.Kept = c.kept
			p, err := jobnet.NewPool(config.Uplink{Kind: config.UplinkAuto}, n)
			if err != nil {
				t.Fatal(err)
			}
			var taken []netip.Addr
			var first []int
			for range c.first {
				a, err := p.Free(taken)
				if err != nil || slices.Contains(taken, a) {
					t.Fatalf("%s after %v, %v", a, taken, err)
				}
				taken, first = append(taken, a), append(first, p.Ports(a).First)
			}
			if few := p.Few(taken[len(taken)-1]); few.First != c.few {
				t.Errorf("the last job has %v, want %d", few, c.few)
			}
			if !slices.Equal(first, c.first) {
				t.Errorf("the jobs' blocks begin at %v, want %v", first, c.first)
			}
		})
	}
}

func TestPortsThatTheKernelDoesNotChooseAreJobs(t *testing.T) {
	all := virtual.Ports{First: 1024, Last: 65535}
	for list, want := range map[string]string{
		"": "[{1024 65535}]", "16384-32767": "[{1024 16383} {32768 65535}]", "80,1024,2000-2010,65535": "[{1025 1999} {2011 65534}]", "1-65535": "[]",
	} {
		if got := fmt.Sprint(jobnet.Without(all, list)); got != want {
			t.Errorf("without %q there are %s, want %s", list, got, want)
		}
	}
}

func TestARangeThatIsUsedUpSaysSo(t *testing.T) {
	p, err := jobnet.NewPool(config.Uplink{Kind: "macvlan", Parent: "eth0", Addresses: addresses("10.1.8.0/31")}, node())
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Free([]netip.Addr{netip.MustParseAddr("10.1.8.0"), netip.MustParseAddr("10.1.8.1")})
	if err == nil || err.Error() != "uplink: none of the addresses 10.1.8.0-10.1.8.1 is free" || hint.Of(err) == "" {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("%v is the node's fault, and users decide how many jobs there are", err)
	}
}
