package config_test

import (
	"net/netip"
	"reflect"
	"testing"

	"gresnet/lib/base/config"
)

func TestAnUplinkIsWhatTheSiteWrites(t *testing.T) {
	text := `[uplink]
kind = "macvlan"
name = "eth0"
parent = "eth0"
addresses = "10.1.128.0/17"
share = 8
gateway = "10.1.0.254"
routes = ["0.0.0.0/0", "10.0.0.0/8"]
nameservers = ["10.1.0.53"]
search = ["example.org"]
`
	want := config.Uplink{
		Kind: "macvlan", Name: "eth0", Parent: "eth0", Share: 8, Gateway: netip.MustParseAddr("10.1.0.254"),
		Addresses:   config.Range{First: netip.MustParseAddr("10.1.128.0"), Last: netip.MustParseAddr("10.1.255.255")},
		Routes:      []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.0.0.0/8")},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.1.0.53")}, Search: []string{"example.org"},
	}
	got, err := config.Parse([]byte(text), "f")
	if err != nil || !reflect.DeepEqual(got.Uplink, want) {
		t.Errorf("got %+v, %v, want %+v", got.Uplink, err, want)
	}
}

func TestNobodyReachesAJobUnlessTheSiteSaysSo(t *testing.T) {
	for text, want := range map[string]bool{"": false, "inbound = \"none\"\n": false, "inbound = \"whole-node\"\n": true} {
		got, err := config.Parse([]byte("[uplink]\nkind = \"auto\"\n"+text), "f")
		if err != nil || got.Uplink.Inbound != want {
			t.Errorf("%q: %v, %v", text, got.Uplink.Inbound, err)
		}
	}
}

func TestErrorsOfAnUplinkSayWhatToDo(t *testing.T) {
	const macvlan = "[uplink]\nkind = \"macvlan\"\nparent = \"eth0\"\naddresses = \"10.0.0.16/28\"\n"
	refuses(t, []mistake{
		{"unknown kind", "[uplink]\nkind = \"bridge\"\n", `f:2: uplink.kind: "bridge" is not one of "none", "auto", "macvlan"`, "correct line 2 of f"},
		{"addresses of an automatic one", "[uplink]\nkind = \"auto\"\naddresses = \"10.0.0.16/28\"\n", `f:3: uplink.addresses: is not for kind = "auto"`, "the node's own routes say where jobs reach; to say it yourself, take kind = \"macvlan\""},
		{"what an automatic one alone has", macvlan + "inbound = \"whole-node\"\n", `f:5: uplink.inbound: is not for kind = "macvlan"`, `take kind = "auto"`},
		{"what an automatic one alone denies", macvlan + "deny = [\"10.0.0.0/8\"]\n", `f:5: uplink.deny: is not for kind = "macvlan"`, `take kind = "auto"`},
		{"a name that is denied", "[uplink]\ndeny = [\"host\"]\n", `f:2: uplink.deny: "host" is not a network`, `write it like "10.0.0.0/8"; all the world is "0.0.0.0/0"`},
		{"who reaches all jobs", "[uplink]\ninbound = \"all\"\n", `f:2: uplink.inbound: "all" is not one of "none", "whole-node"`, "correct line 2 of f"},
		{"a name that no interface can have", "[uplink]\nname = \"sixteen-letters0\"\n", `f:2: uplink.name: "sixteen-letters0" cannot be the name of an interface`, `take a name like "eth0"`},
		{"a pattern", "[uplink]\nname = \"eth%d\"\n", `f:2: uplink.name: "eth%d" cannot be the name of an interface`, `take a name like "eth0"`},
		{"a folder of sysctls", "[uplink]\nname = \"all\"\n", `f:2: uplink.name: "all" cannot be the name of an interface`, `take a name like "eth0"`},
		{"the loopback", "[uplink]\nname = \"lo\"\n", `f:2: uplink.name: "lo" is another interface of the job's`, `take a name like "eth0"`},
		{"search without nameservers of an automatic one", "[uplink]\nkind = \"auto\"\nsearch = [\"example.org\"]\n", "f:1: uplink.nameservers: is missing", "set it, or leave search out"},
		{"no addresses", "[uplink]\nkind = \"macvlan\"\nparent = \"eth0\"\n", "f:1: uplink.addresses: is missing", `say from which addresses jobs get theirs: addresses = "10.0.0.16-10.0.0.31"`},
		{"no parent", "[uplink]\nkind = \"macvlan\"\naddresses = \"10.0.0.16/28\"\n", "f:1: uplink.parent: is missing", "name the node's interface that leads to the management network"},
		{"a parent that no interface can be", "[uplink]\nparent = \"a/b\"\n", `f:2: uplink.parent: "a/b" cannot be the name of an interface`, "`ip link` lists them"},
		{"IPv6 range", "[uplink]\naddresses = \"fd00::/64\"\n", `f:2: uplink.addresses: "fd00::/64" is not IPv4`, "an uplink has IPv4 alone: give it IPv4 addresses"},
		{"IPv6 gateway", macvlan + "gateway = \"fd00::1\"\n", `f:5: uplink.gateway: "fd00::1" is not IPv4`, "an uplink has IPv4 alone: give it IPv4 addresses"},
		{"IPv6 route", macvlan + "gateway = \"10.0.0.17\"\nroutes = [\"::/0\"]\n", `f:6: uplink.routes: "::/0" is not IPv4`, "an uplink has IPv4 alone: give it IPv4 addresses"},
		{"a range backwards", "[uplink]\naddresses = \"10.0.0.9-10.0.0.8\"\n", `f:2: uplink.addresses: "10.0.0.9-10.0.0.8" ends before it begins`, `write it like "10.0.0.16-10.0.0.31" or "10.0.0.16/28"`},
		{"a network with bits too many", "[uplink]\naddresses = \"10.0.0.17/28\"\n", `f:2: uplink.addresses: "10.0.0.17/28" has bits beyond its length`, "is 10.0.0.16/28 meant?"},
		{"no range", "[uplink]\naddresses = \"some\"\n", `f:2: uplink.addresses: "some" is not a range of addresses`, `write it like "10.0.0.16-10.0.0.31" or "10.0.0.16/28"`},
		{"routes without a gateway", macvlan + "routes = [\"0.0.0.0/0\"]\n", "f:1: uplink.gateway: is missing", "set it, or leave routes out"},
		{"a share of nothing", macvlan + "share = 0\n", "f:5: uplink.share: 0 is not from 1 to 65536", "leave the key out if all addresses are this node's"},
		{"four nameservers", "[uplink]\nnameservers = [\"10.0.0.1\", \"10.0.0.2\", \"10.0.0.3\", \"10.0.0.4\"]\n", "f:2: uplink.nameservers: the resolver takes three, there are 4", "keep three of them"},
		{"search without nameservers", macvlan + "search = [\"example.org\"]\n", "f:1: uplink.nameservers: is missing", "set it, or leave search out"},
		{"a search that is two lines", "[uplink]\nnameservers = [\"10.0.0.53\"]\nsearch = [\"a\\nnameserver 6.6.6.6\"]\n", `f:3: uplink.search: "a\nnameserver 6.6.6.6" is not a domain`, "correct line 3 of f"},
	})
}
