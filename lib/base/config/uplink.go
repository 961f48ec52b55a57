package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Uplink is the table [uplink]: the way from a job to the management network,
// which a namespace of its own does not have.
type Uplink struct {
	Kind      string // of the Uplink* words
	Name      string // of the interface in the job
	Parent    string // interface of the node's that leads there
	Addresses Range  // that jobs get theirs from
	Share     int    // how many of them are this node's; 0: all
	Gateway   netip.Addr
	Routes    []netip.Prefix

	Inbound bool           // of auto: others reach a job that has the node to itself
	Deny    []netip.Prefix // of auto: where jobs do not send

	Nameservers []netip.Addr // empty: the node's resolv.conf holds inside, too
	Search      []string
}

// The kinds of uplinks.
const (
	UplinkNone    = "none"
	UplinkMacvlan = "macvlan"
	UplinkAuto    = "auto" // a veth to the node, which leads on
)

// UplinkName is the name that an uplink has if the site gives it none.
const UplinkName = "uplink0"

// On tells whether jobs get an uplink.
func (u Uplink) On() bool { return u.Kind != "" && u.Kind != UplinkNone }

// Range is a range of IPv4 addresses, the ends included.
type Range struct{ First, Last netip.Addr }

// String returns the range as gresnet.toml has it.
func (r Range) String() string { return r.First.String() + "-" + r.Last.String() }

// Overlaps tells whether an address of the range is one of a network's.
func (r Range) Overlaps(p netip.Prefix) bool {
	network := NetworkRange(p)
	return r.First.Compare(network.Last) <= 0 && network.First.Compare(r.Last) <= 0
}

// NetworkRange returns all of a network.
func NetworkRange(p netip.Prefix) Range {
	first := p.Masked().Addr()
	last := first.As4()
	for bit := p.Bits(); bit < first.BitLen(); bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	return Range{first, netip.AddrFrom4(last)}
}

const ipv4Only = "GN172 an uplink has IPv4 alone: give it IPv4 addresses"

// maxShare bounds the jobs of a node that have an uplink at once.
const maxShare = 1 << 16

// maxDenied is how many networks the kernel's list of them takes.
const maxDenied = 256

func (u *Uplink) read(t table) {
	t.Allow(
		// `"auto"` | jobs [reach what the node reaches](#kind--auto-what-the-node-reaches); `"none"`: they
		// have no way to the management network; `"macvlan"`: they are [neighbors of the
		// node](#kind--macvlan-neighbors-of-the-node)
		"kind",
		// `"uplink0"` | the interface's name in the job. No interface of a job's HCA may have it
		"name",
		// | for `macvlan`, as are the next four: the node's interface to the management network
		"parent",
		// | the range of the jobs' addresses, IPv4: `"10.0.0.16-10.0.0.31"` or `"10.0.0.16/28"`; no host may
		// have them, nor DHCP deal them
		"addresses",
		// all | how many of them belong to one node, 1 to 65536: [see
		// below](#kind--macvlan-neighbors-of-the-node)
		"share",
		// | next hop of the routes
		"gateway",
		// | networks behind the gateway; `"0.0.0.0/0"` is all the world; without the key none
		"routes",
		// `"none"` | only Slurm begins connections to a job; `"whole-node"`: with `auto`, others reach [a job
		// that has the node to itself](#inbound--whole-node)
		"inbound",
		// `[]` | networks and addresses to which no job sends by `auto`, IPv4, 256 at most:
		// `["169.254.169.254/32"]`. The node's OUTPUT rules do not see jobs' packets
		"deny",
		// `[]` | the servers in a job's `/etc/resolv.conf`, three at most; without the key, the node's file
		// holds inside, too, or the file in which systemd-resolved or NetworkManager names the servers behind
		// its stub. If the node has another stub on its loopback, say the servers here
		"nameservers",
		// `[]` | and its search domains
		"search",
	)
	t.Choose("kind", &u.Kind, UplinkNone, UplinkAuto, UplinkMacvlan)
	readName(t, "name", &u.Name)
	u.readParent(t)
	u.readAddresses(t)
	if text, there := t.Text("gateway"); there {
		u.Gateway = readAddress(t, "gateway", text)
	}
	if list, there := t.Texts("routes"); there {
		u.Routes = readNetworks(t, "routes", list)
	}
	if word, there := t.Word("inbound", "none", "whole-node"); there {
		u.Inbound = word == "whole-node"
	}
	if list, there := t.Texts("deny"); there {
		u.Deny = readNetworks(t, "deny", list)
		if len(u.Deny) > maxDenied {
			t.Fail("deny", "GN874 write larger networks", "has %d networks, and there is room for %d", len(u.Deny), maxDenied)
		}
	}
	u.readNames(t)
	u.check(t)
}

func (u *Uplink) readParent(t table) {
	name, there := t.Text("parent")
	if there && !isInterface(name) {
		t.Fail("parent", "GN173 `ip link` lists them", "%q cannot be the name of an interface", name)
		return
	}
	u.Parent = name
}

// isInterface tells whether the kernel takes a name for an interface (net/core/dev.c:dev_valid_name;
// IFNAMSIZ counts the NUL).
func isInterface(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r")
}

// readName reads the name of an interface that is made in jobs.
func readName(t table, key string, into *string) {
	name, there := t.Text(key)
	switch {
	case !there:
	case !isInterface(name) || strings.Contains(name, "%") || name == "all" || name == "default":
		// The first is a pattern of the kernel's, the others are folders beside those of interfaces
		// (net/core/dev.c:__dev_alloc_name, net/ipv4/devinet.c:devinet_sysctl_register).
		t.Fail(key, `GN174 take a name like "eth0"`, "%q cannot be the name of an interface", name)
	case name == "lo":
		t.Fail(key, `GN175 take a name like "eth0"`, "%q is another interface of the job's", name)
	default:
		*into = name
	}
}

func (u *Uplink) readAddresses(t table) {
	if text, there := t.Text("addresses"); there {
		r, err := ParseRange(text)
		u.Addresses = r
		t.Check("addresses", err)
	}
	n, there := valueOf[int64](t, "share", "a number")
	if there && (n < 1 || n > maxShare) {
		t.Fail("share", "GN176 leave the key out if all addresses are this node's", "%d is not from 1 to %d", n, maxShare)
		return
	}
	u.Share = int(n)
}

func (u *Uplink) readNames(t table) {
	if list, there := t.Texts("nameservers"); there {
		for _, text := range list {
			u.Nameservers = append(u.Nameservers, readAddress(t, "nameservers", text))
		}
		// resolv.conf(5), MAXNS
		if len(list) > 3 {
			t.Fail("nameservers", "GN177 keep three of them", "the resolver takes three, there are %d", len(list))
		}
	}
	if list, there := t.Texts("search"); there && len(list) > 0 {
		u.Search = list
		for _, text := range list {
			if text == "" || strings.ContainsAny(text, " \t\n#;") {
				t.Fail("search", "", "%q is not a domain", text)
			}
		}
	}
}

// check holds the keys against each other.
func (u *Uplink) check(t table) {
	if !u.On() {
		return
	}
	need := func(key, why string) {
		if !t.Has(key) {
			t.Fail(key, why, "is missing")
		}
	}
	if u.Kind == UplinkAuto {
		for _, key := range []string{"parent", "addresses", "share", "gateway", "routes"} {
			if t.Has(key) {
				t.Fail(key, `GN312 the node's own routes say where jobs reach; to say it yourself, take kind = "macvlan"`, "is not for kind = %q", u.Kind)
			}
		}
		u.checkSearch(need)
		return
	}
	if u.Inbound {
		t.Fail("inbound", `GN178 take kind = "auto"`, "is not for kind = %q", u.Kind)
	}
	if len(u.Deny) > 0 {
		t.Fail("deny", `GN875 take kind = "auto"`, "is not for kind = %q", u.Kind)
	}
	need("addresses", `GN300 say from which addresses jobs get theirs: addresses = "10.0.0.16-10.0.0.31"`)
	need("parent", "GN303 name the node's interface that leads to the management network")
	if len(u.Routes) > 0 {
		need("gateway", "GN305 set it, or leave routes out")
	}
	u.checkSearch(need)
}

func (u *Uplink) checkSearch(need func(key, why string)) {
	if len(u.Search) > 0 && len(u.Nameservers) == 0 {
		need("nameservers", "GN306 set it, or leave search out")
	}
}

// ParseRange reads a range like 10.0.0.16-10.0.0.31, or a network.
func ParseRange(text string) (Range, error) {
	const form = `GN179 write it like "10.0.0.16-10.0.0.31" or "10.0.0.16/28"`
	if p, err := netip.ParsePrefix(text); err == nil {
		switch {
		case !p.Addr().Is4():
			return Range{}, fault(fmt.Sprintf("%q is not IPv4", text), ipv4Only)
		case p.Masked() != p:
			return Range{}, fault(fmt.Sprintf("%q has bits beyond its length", text), "GN180 is "+p.Masked().String()+" meant?")
		}
		return NetworkRange(p), nil
	}
	first, last, _ := strings.Cut(text, "-")
	a, errFirst := netip.ParseAddr(first)
	b, errLast := netip.ParseAddr(last)
	switch {
	case errFirst != nil || errLast != nil:
		return Range{}, fault(fmt.Sprintf("%q is not a range of addresses", text), form)
	case !a.Is4() || !b.Is4():
		return Range{}, fault(fmt.Sprintf("%q is not IPv4", text), ipv4Only)
	case b.Less(a):
		return Range{}, fault(fmt.Sprintf("%q ends before it begins", text), form)
	}
	return Range{a, b}, nil
}

func readAddress(t table, key, text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		t.Fail(key, "", "%q is not an address", text)
	case !a.Is4():
		t.Fail(key, ipv4Only, "%q is not IPv4", text)
	}
	return a
}

func readNetworks(t table, key string, list []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			t.Fail(key, `GN181 write it like "10.0.0.0/8"; all the world is "0.0.0.0/0"`, "%q is not a network", text)
		case !p.Addr().Is4():
			t.Fail(key, ipv4Only, "%q is not IPv4", text)
		case p.Masked() != p:
			t.Fail(key, "GN182 is "+p.Masked().String()+" meant?", "%q has bits beyond its length", text)
		}
		all = append(all, p)
	}
	return all
}
