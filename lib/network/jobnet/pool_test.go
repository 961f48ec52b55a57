package jobnet_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
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

func TestAJobsBlockHasNoPortOfTheNodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		own   ports.Block
		kept  []ports.Block
		first []int // of the blocks
	}{
		{"a node as the kernel makes it", ports.Block{First: 32768, Last: 60999}, nil, append(every1024(16384, 32768), every1024(61440, 65536)...)},
		{"one with services", ports.Block{First: 32768, Last: 65535}, []ports.Block{{First: 17407, Last: 17407}, {First: 27000, Last: 27000}}, append(every1024(17408, 26624), every1024(27648, 32768)...)},
		{"one that chooses few", ports.Block{First: 1024, Last: 16383}, nil, every1024(16384, 65536)},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := wayOut()
			n.Ephemeral, n.Kept = c.own, c.kept
			p, err := jobnet.NewPool(config.Uplink{Kind: config.UplinkAuto}, n)
			if err != nil {
				t.Fatal(err)
			}
			var taken []netip.Addr
			var first []int
			for {
				a, err := p.Free(taken)
				if err != nil {
					break
				}
				b, _ := p.Block(a)
				taken, first = append(taken, a), append(first, b.First)
			}
			if !slices.Equal(first, c.first) {
				t.Errorf("the jobs' blocks begin at %v, want %v", first, c.first)
			}
		})
	}
}

func TestAJobsBlockHasNoPortThatSlurmConfNames(t *testing.T) {
	conf, err := confOf(nil, "SrunPortRange=17000-18431\nMpiParams=other=1,ports=20000-20999\nSlurmctldPort=22600-22603\nSlurmdPort=24600\n")
	if err != nil {
		t.Fatal(err)
	}
	n := wayOut()
	if err := n.ReadPorts(nil, conf); err != nil {
		t.Fatal(err)
	}
	n.Ephemeral = ports.Block{First: 32768, Last: 65535}
	p, err := jobnet.NewPool(config.Uplink{Kind: config.UplinkAuto}, n)
	if err != nil {
		t.Fatal(err)
	}
	var taken []netip.Addr
	for {
		a, err := p.Free(taken)
		if err != nil {
			break
		}
		taken = append(taken, a)
		b, _ := p.Block(a)
		for _, named := range []ports.Block{{First: 17000, Last: 18431}, {First: 20000, Last: 20999}, {First: 22600, Last: 22603}, {First: 24600, Last: 24600}} {
			if b.Overlaps(named) {
				t.Errorf("a job has %s, and slurm.conf names %s", b, named)
			}
		}
	}
	if len(taken) == 0 {
		t.Error("no job has a block")
	}
	conf, err = confOf(nil, "SrunPortRange=16384-32767\n")
	if err == nil {
		err = n.ReadPorts(nil, conf)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.Ephemeral = ports.Block{First: 32768, Last: 65535}
	if _, err := jobnet.NewPool(config.Uplink{Kind: config.UplinkAuto}, n); !errors.Is(err, jobnet.ErrNoPorts) || !strings.Contains(err.Error(), "slurm.conf has 16384-32767") {
		t.Errorf("with all in SrunPortRange: %v", err)
	}
}

func every1024(from, to int) (all []int) {
	for ; from < to; from += 1024 {
		all = append(all, from)
	}
	return all
}

func TestANodeThatChoosesAllPortsHasNoneForJobs(t *testing.T) {
	n := wayOut()
	n.Ephemeral = ports.Block{First: 1024, Last: 65535}
	_, err := jobnet.NewPool(config.Uplink{Kind: config.UplinkAuto}, n)
	if !errors.Is(err, jobnet.ErrNoPorts) || !strings.Contains(err.Error(), "1024-65535") || !strings.Contains(hint.Of(err), "net.ipv4.ip_local_port_range") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
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
