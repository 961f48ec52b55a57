package snapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/link/sysctl"
	"gresnet/test/netnstest"
)

// bed is a node and a job, with an interface of the node whose peer is in a
// third namespace, so that it has a carrier wherever it goes.
type bed struct {
	node, job, far *netnstest.NS
}

func newBed(t *testing.T) *bed {
	node, job, far := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	node.IP("link add hca0 numtxqueues 4 numrxqueues 4 type veth peer name far0")
	node.IP("link set far0 netns " + far.Path)
	far.IP("link set far0 up")
	if err := job.Do(sysctl.SkipDAD); err != nil {
		t.Fatal(err)
	}
	return &bed{node, job, far}
}

// take reads what the interface has and moves it into the job, up.
func (b *bed) take(t *testing.T) (s snapshot.Settings) {
	t.Helper()
	in(t, b.node, func(c *snapshot.Conn) (err error) {
		i := find(t, c, "hca0")
		if s, err = c.Settings(i.Index); err != nil {
			return err
		}
		return c.Move(i.Index, b.job.FD(), "hca0", true)
	})
	return s
}

// other gives the node a second interface, and both addresses.
const other = `ip link add other type veth peer name otherfar; ip link set other up; ip link set otherfar up; ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0; ip addr add 10.1.0.2/24 dev other
ip -6 addr add fd00::2/64 dev hca0 nodad; ip -6 addr add fd01::2/64 dev other nodad`

// in calls a function with a connection to a namespace.
var in = snapshot.Dialled

// picture returns all that `ip` knows of the interface, less what passes by itself. Neighbors
// are in the order of a hash of the whole machine's, which other namespaces change.
func picture(ns *netnstest.NS) string {
	return ns.Run(`ip -d link show dev hca0 | sed 's/^[0-9]*: //; s/qdisc [a-z]*//'
ip -d addr show dev hca0 | sed 's/^[0-9]*: //; s/qdisc [a-z]*//; s/valid_lft [0-9]*sec/valid_lft Nsec/; s/preferred_lft [0-9]*sec/preferred_lft Nsec/'
ip token show dev hca0
for d in ipv4/conf ipv6/conf ipv4/neigh ipv6/neigh; do grep -s . /proc/sys/net/$d/hca0/* || true; done
(ip neigh show dev hca0 nud permanent; ip neigh show dev hca0 nud noarp | sed '/^ff\|^224/d'; ip neigh show proxy dev hca0) | sort
tc -d qdisc show dev hca0 | grep -v 'noqueue 0:\|noop 0:' || true
bridge fdb show dev hca0 | sed '/^33:33\|^01:00/d'
ip -d -4 route show table all dev hca0 | sed 's/expires [0-9]*sec/expires Nsec/'
ip -d nexthop show dev hca0
ip rule; ip -6 rule
ip -d -6 route show table all dev hca0 | sed 's/expires [0-9]*sec/expires Nsec/' | sort`)
}

// rest returns what `ip` knows of the namespace beyond the interface.
func rest(ns *netnstest.NS) string {
	return ns.Run(`ip maddr show dev hca0 | sed 1d | sort; sed -n 's/^[0-9]* *hca0//p' /proc/net/anycast6
ip -d -4 route show table all | sed '/^local\|^broadcast\|^multicast/d' | sort
ip -d -6 route show table all | sed 's/expires [0-9]*sec/expires Nsec/; /^local\|^anycast\|^multicast\|^fe80/d' | sort
ip -d nexthop show | sort
ip addr show type macvlan | sed 's/^[0-9]*: //'; ip neigh show nud permanent | sort
tc actions ls action mirred; for d in $(ip -br link | sed 's/[@ ].*//'); do tc filter show dev $d ingress; done`)
}

// awaitTested waits until the kernel has tested the interface's addresses for duplicates, which it
// does not begin without a carrier.
func awaitTested(ns *netnstest.NS) {
	ns.Run(`if [ "$(cat /sys/class/net/hca0/carrier 2>&1)" = 1 ]; then
while ip -6 addr show dev hca0 | grep tentative | grep -qv dadfailed; do sleep 0.02; done; fi`)
}

func TestAMoveThereAndBackRestoresTheInterface(t *testing.T) {
	netnstest.Slow(t)
	tests := []struct {
		name  string
		setup string // on the node
		away  string // in the job, before the interface comes back
		other bool   // it cannot be quite the same in the job
	}{
		{"down and bare", `true`, ``, false},
		{"down with an address", `ip addr add 10.0.0.2/24 dev hca0`, ``, false},
		{"up and bare", `ip link set hca0 up`, ``, false},
		{"an address of each family", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad`, ``, false},
		{"MTU and MAC", `ip link set hca0 mtu 9000 address 02:00:00:aa:bb:cc up; ip addr add 10.0.0.2/24 dev hca0`, ``, false},
		{"secondary addresses keep their order", `ip link set hca0 up
for i in 9 2 5; do ip addr add 10.0.0.$i/24 dev hca0; ip -6 addr add fd00::$i/64 dev hca0 nodad; done
ip addr add 10.1.0.1/24 dev hca0`, ``, false},
		{"label, peer, scope, metric, no prefix route", `ip link set hca0 up
ip addr add 10.0.0.2 peer 10.0.0.3 dev hca0 label hca0:x
ip addr add 10.1.0.2/24 dev hca0 scope link metric 77
ip addr add 10.2.0.2/24 broadcast 10.2.0.200 dev hca0 noprefixroute
ip -6 addr add fd01::2/64 dev hca0 nodad noprefixroute`, ``, false},
		{"lifetimes", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0 valid_lft 5000 preferred_lft 4000; ip -6 addr add fd00::2/64 dev hca0 nodad valid_lft 5000 preferred_lft 4000`, ``, false},
		{"routes with gateways, metrics, sources, tables", `ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 metric 50 src 10.0.0.2 mtu 1400 initcwnd 20 proto static
ip route add 10.9.0.0/16 via 10.0.0.7 dev hca0 metric 60
ip route add 10.8.0.0/16 via 10.9.0.1 dev hca0 onlink table 100
ip route add blackhole 10.77.0.0/16
ip route add 192.0.2.0/24 dev hca0 scope link table 200
ip -6 route add fd09::/64 via fd00::1 dev hca0 metric 50 proto static
ip -6 route add fd08::/64 dev hca0 table 100`, ``, true},
		{"a connected route that was removed stays removed", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route del 10.0.0.0/24 dev hca0`, ``, false},
		{"link local address removed", `ip link set hca0 up; ip -6 addr flush dev hca0; ip addr add 10.0.0.2/24 dev hca0`, ``, false},
		{"altnames and alias", `ip link property add dev hca0 altname fabric0 altname rail0; ip link set hca0 alias "rack 7" up`,
			`ip link property del dev hca0 altname rail0; ip link property add dev hca0 altname other; ip link set hca0 alias ""`, false},
		{"altnames that are not UTF-8", `ip link property add dev hca0 altname "$(printf 'caf\351')" altname "$(printf '\377\355\260\200')"`, ``, false},
		{"altname and alias that a job gave", `true`, `ip link property add dev hca0 altname other; ip link set hca0 alias mine`, false},
		{"MTU that a job changed", `ip link set hca0 mtu 3333 up; ip addr add 10.0.0.2/24 dev hca0`, `ip link set hca0 mtu 4444`, false},
		{"group and queue length", `ip link set hca0 group 5 txqueuelen 77 up`, `ip link set hca0 group 0 txqueuelen 500`, false},
		{"flags", `ip link set hca0 promisc on allmulticast on multicast off dynamic on up`,
			`ip link set hca0 promisc off allmulticast off multicast on dynamic off`, false},
		{"flags that a job set", `ip link set hca0 up`, `ip link set hca0 promisc on allmulticast on dynamic on`, false},
		{"noarp", `ip link set hca0 arp off up; ip addr add 10.0.0.2/24 dev hca0`, `ip link set hca0 arp on`, false},
		{"offload sizes", `ip link set hca0 gso_max_size 30000 gso_max_segs 20 gro_max_size 40000 up`, `ip link set hca0 gso_max_size 65536 gso_max_segs 65535 gro_max_size 50000`, false},
		{"sysctls", `cd /proc/sys/net; echo 2 >ipv4/conf/hca0/arp_ignore; echo 2 >ipv4/conf/hca0/arp_announce; echo 2 >ipv4/conf/hca0/rp_filter; echo 1 >ipv4/conf/hca0/forwarding
echo 0 >ipv6/conf/hca0/accept_ra; echo 7 >ipv6/conf/hca0/hop_limit; echo 120 >ipv4/neigh/hca0/gc_stale_time; echo 4321 >ipv6/neigh/hca0/base_reachable_time_ms
ip link set hca0 up; echo 1400 >ipv6/conf/hca0/mtu`, `sysctl -qw net.ipv4.conf.hca0.rp_filter=0`, false},
		{"sysctls as they are though the default is another", `sysctl -qw net.ipv4.conf.default.rp_filter=2; ip link set hca0 up`, ``, false},
		{"IPv6 is disabled", `sysctl -qw net.ipv6.conf.hca0.disable_ipv6=1; ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0`, ``, false},
		{"too small for IPv6", `ip link set hca0 mtu 1000 up; ip addr add 10.0.0.2/24 dev hca0`, ``, false},
		{"a secret for stable addresses", `sysctl -qw net.ipv6.conf.hca0.stable_secret=fd00::5ec; ip link set hca0 up`, `sysctl -qw net.ipv6.conf.hca0.stable_secret=fd00::6`, true},
		{"a secret that is not used", `sysctl -qw net.ipv6.conf.hca0.stable_secret=fd00::5ec net.ipv6.conf.hca0.addr_gen_mode=0; ip link set hca0 up; ip -6 addr flush dev hca0`, ``, false},
		{"link local addresses by nobody", `sysctl -qw net.ipv6.conf.hca0.addr_gen_mode=1; ip link set hca0 up`, ``, false},
		{"permanent neighbours", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent; ip neigh add fd00::9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent router
ip neigh add 10.0.0.8 lladdr 02:00:00:00:00:08 dev hca0 nud noarp; ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:07 dev hca0 nud permanent protocol bird`,
			`ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:06 dev hca0 nud permanent; ip neigh del 10.0.0.9 dev hca0`, false},
		{"permanent neighbours at its own addresses and groups", `ip link set hca0 up; ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev hca0 nud permanent; ip addr add 10.0.0.2/24 dev hca0
ip addr add 10.0.0.3/24 dev hca0; ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:03 dev hca0 nud permanent; ip neigh add fd00::2 lladdr 02:00:00:00:00:02 dev hca0 nud permanent
ip -6 addr add fd00::2/64 dev hca0 nodad; ip neigh add 224.0.0.77 lladdr 02:00:00:00:00:77 dev hca0 nud permanent`, ``, false},
		{"permanent neighbours of an interface that is down", `ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent`, ``, false},
		{"proxied neighbours", `ip link set hca0 up; ip neigh add proxy 10.0.0.10 dev hca0; ip neigh add proxy fd00::10 dev hca0`, `ip neigh add proxy 10.0.0.11 dev hca0`, false},
		{"hardware address filters", `ip link set hca0 up; bridge fdb add 02:11:11:11:11:11 dev hca0 self permanent`, ``, false},
		{"the group of VLAN registration", `ip link set hca0 up; bridge fdb add 01:80:c2:00:00:21 dev hca0 self permanent`, ``, false},
		{"groups", `ip link set hca0 up; sysctl -qw net.ipv6.conf.hca0.forwarding=1 net.ipv4.conf.hca0.forwarding=1
ip addr add 10.0.0.2/24 dev hca0; ip addr add 239.1.1.1/32 dev hca0 autojoin; ip -6 addr add ff05::77/64 dev hca0 autojoin
ip -6 addr add fd00::2/64 dev hca0 nodad; ip -6 addr add fd01::2/64 dev hca0 nodad; ip neigh add proxy fd00::1:2 dev hca0`, ``, false},
		{"routes over several next hops", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip route add 10.10.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.0.0.3 dev hca0 weight 3
ip -6 route add fd10::/64 nexthop via fd00::1 dev hca0 nexthop via fd00::3 dev hca0 weight 4`, ``, false},
		{"routes over other interfaces, too", other + `
ip route add 10.9.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev other weight 3
ip -6 route add fd09::/64 nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev other weight 3`, ``, false},
		{"routes of other interfaces from an address of this", other + `
ip route add 10.11.0.0/16 dev other src 10.0.0.2; ip -6 route add fd11::/64 dev other src fd00::2`, ``, false},
		{"routes from an address of another interface", other + `
ip addr add 192.0.2.1/32 dev lo; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 src 192.0.2.1 proto 200; ip route add 10.11.0.0/16 via 10.9.0.1 dev hca0 onlink
ip -6 route add fd09::/64 via fd00::1 dev hca0 src fd01::2`, `ip route get 10.9.0.5; ip -6 route get fd09::5`, true},
		{"next hop objects", other + `
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 dev hca0 proto static; ip nexthop add id 9 group 7,5/8
ip nexthop add id 10 via 10.1.0.1 dev other; ip nexthop add id 17 via fd00::1 dev hca0
ip route add 10.21.0.0/16 nhid 7; ip route add 10.22.0.0/16 nhid 9; ip -6 route add fd21::/64 nhid 17 metric 50`, ``, false},
		{"next hop objects of which the routes do not tell the interface", other + `
sysctl -qw net.ipv4.nexthop_compat_mode=0
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 17 via fd00::1 dev hca0
ip route add 10.21.0.0/16 nhid 7; ip route add 10.24.0.0/16 via 10.0.0.3 dev hca0; ip -6 route add fd21::/64 nhid 17 metric 50`, ``, true},
		{"groups of next hop objects with others", other + `
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 10 via 10.1.0.1 dev other; ip nexthop add id 11 group 7,5/10
ip route add 10.23.0.0/16 nhid 11`, ``, false},
		{"routes with encapsulation", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip route add 10.9.0.0/16 encap ip id 5 dst 10.0.0.3 dev hca0; ip route add 10.10.0.0/16 encap ip6 id 5 dst fd00::3 hoplimit 9 dev hca0
ip -6 route add fd09::/64 encap seg6 mode encap segs fd00::5,fd00::6 dev hca0; ip -6 route add fd10::/64 encap seg6 mode inline segs fd00::7 via fd00::1 dev hca0
ip route add 10.11.0.0/16 nexthop encap ip id 6 dst 10.0.0.3 via 10.0.0.1 dev hca0 nexthop via 10.0.0.4 dev hca0 weight 3
ip -6 route add fd11::/64 nexthop encap seg6 mode encap segs fd00::5 via fd00::1 dev hca0 nexthop via fd00::3 dev hca0 weight 4`, ``, false},
		{"next hop objects with encapsulation", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip nexthop add id 7 encap ip id 5 dst 10.0.0.3 via 10.0.0.1 dev hca0; ip nexthop add id 17 encap seg6 mode encap segs fd00::5 via fd00::1 dev hca0
ip nexthop add id 8 via 10.0.0.1 dev hca0; ip nexthop add id 9 group 7/8
ip route add 10.9.0.0/16 nhid 7; ip route add 10.10.0.0/16 nhid 9; ip -6 route add fd09::/64 nhid 17`, ``, false},
		{"routes that expire", `ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad; ip -6 route add fd12::/64 via fd00::1 expires 500 proto ra`, ``, false},
		{"a plain queueing discipline", `ip link set hca0 up; tc qdisc add dev hca0 root handle 7: pfifo limit 77`, `tc qdisc del dev hca0 root`, false},
		{"the kernel's queueing discipline", `ip link set hca0 up`, `tc qdisc add dev hca0 root bfifo`, false},
		{"a discipline for each queue that the kernel chose", `ip link set hca0 up; tc qdisc add dev hca0 root handle 7: mq`, `tc qdisc del dev hca0 root`, false},
		{"a macvlan", `ip link set hca0 up; ip link add mv0 link hca0 type macvlan mode bridge; sysctl -qw net.ipv6.conf.mv0.accept_dad=0; ip link set mv0 up mtu 1400; ip addr add 10.5.0.2/24 dev mv0; ip -6 addr add fd05::2/64 dev mv0 nodad; ip route add 10.50.0.0/16 via 10.5.0.1 dev mv0; ip -6 addr del $(ip -6 addr show dev mv0 scope link | awk '/inet6/{print $2}') dev mv0
ip neigh add 10.5.0.9 lladdr 02:00:00:00:00:09 dev mv0 nud permanent`, ``, true},
		{"children of one hardware address", `ip link set hca0 up; ip link add mv0 link hca0 type macvlan mode bridge; ip link add mv1 link hca0 type macvlan mode bridge
ip link set mv1 address $(cat /sys/class/net/mv0/address) mtu 1400; ip addr add 10.6.0.2/24 dev mv1; sysctl -qw net.ipv6.conf.mv0.accept_dad=0; ip link set mv0 up; ip addr add 10.5.0.2/24 dev mv0`, ``, true},
		{"policy rules", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 table 100
ip rule add iif hca0 table 100 pref 1000; ip rule add not oif hca0 table 101 pref 1001; ip -6 rule add iif hca0 table 100 pref 1000; ip rule add from 10.0.0.2 table 100 pref 1002`, ``, false},
		{"policy rules of other networks", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 table 100
ip rule add from 10.20.30.0/24 table 100 pref 500; ip -6 rule add to fd77::/64 table 100 pref 500`, ``, true},
		{"policy rules that forbid the routes", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0; ip -6 route add fd09::/64 via fd00::1 dev hca0; ip nexthop add id 7 via 10.0.0.7 dev hca0
ip rule add oif hca0 prohibit pref 1000; ip rule add oif hca0 blackhole pref 1001; ip -6 rule add oif hca0 unreachable pref 1000`, ``, false},
		{"IPv6 token", `sysctl -qw net.ipv6.conf.hca0.accept_ra=1; ip link set hca0 up; ip token set ::7 dev hca0`, `ip token set ::8 dev hca0`, false},
		{"IPv6 token of one that forwards", `sysctl -qw net.ipv6.conf.hca0.accept_ra=1; ip link set hca0 up; ip token set ::7 dev hca0; sysctl -qw net.ipv6.conf.hca0.forwarding=1`, ``, false},
		{"IPv6 token of one that asks no router", `sysctl -qw net.ipv6.conf.hca0.accept_ra=1; ip link set hca0 up; ip token set ::7 dev hca0; ip link set hca0 down; ip link set hca0 arp off; sysctl -qw net.ipv6.conf.hca0.router_solicitations=0; ip link set hca0 up`, ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run("sysctl -qw net.ipv6.conf.hca0.accept_dad=0\n" + tt.setup)
			settle(b.node)
			awaitTested(b.node)
			before := picture(b.node)
			restBefore := rest(b.node)
			var id link.ID
			var s snapshot.Settings
			in(t, b.node, func(c *snapshot.Conn) error {
				i := find(t, c, "hca0")
				id = i.ID
				var err error
				if s, err = c.Settings(i.Index); err != nil {
					return err
				}
				err = c.Once(func() error {
					diff, err := c.Differences(i.Index, s)
					if len(diff) > 0 {
						t.Errorf("asked once for what is the node's: %q", diff)
					}
					return err
				})
				if err != nil {
					return err
				}
				if err := c.LeaveGroups(i.Index, s); err != nil {
					return err
				}
				if err := c.DownChildren(i.Index); err != nil {
					return err
				}
				return c.Move(i.Index, b.job.FD(), "hca0", s.Up)
			})
			s = throughJSON(t, s)
			in(t, b.job, func(c *snapshot.Conn) error { return apply(c, find(t, c, "hca0").Index, s, snapshot.InJob) })
			if diff := netnstest.Diff(before, picture(b.job)); diff != "" && !tt.other {
				t.Errorf("in the job, before (-) and there (+):\n%s", diff)
			}
			b.job.Run(tt.away)
			// What a VLAN suffers, which this kernel may lack.
			b.node.Run("if [ -e /sys/class/net/mv0 ]; then ip link set mv0 down; fi")
			in(t, b.job, func(c *snapshot.Conn) error {
				return c.Move(find(t, c, "hca0").Index, b.node.FD(), "hca0", false)
			})
			in(t, b.node, func(c *snapshot.Conn) error {
				i, err := c.Find(id)
				if err != nil {
					return err
				}
				return restore(t, c, i.Index, s)
			})
			if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
				t.Errorf("before (-) and after (+):\n%s", diff)
			}
			if diff := netnstest.Diff(restBefore, rest(b.node)); diff != "" {
				t.Errorf("the rest of the node, before (-) and after (+):\n%s", diff)
			}
		})
	}
}

// apply applies settings, and waits for the carrier.
func apply(c *snapshot.Conn, index int, s snapshot.Settings, stage snapshot.Stage) error {
	return snapshot.Finished(c.Apply(index, s, stage))
}

// restore restores an interface's settings, and fails the test if it does not have them then.
func restore(t *testing.T, c *snapshot.Conn, index int, s snapshot.Settings) error {
	t.Helper()
	if err := apply(c, index, s, snapshot.Settled); err != nil {
		return err
	}
	diff, err := c.Differences(index, s)
	if len(diff) > 0 {
		t.Errorf("Differences: %q", diff)
	}
	return err
}

func TestApplyOnAnEqualInterfaceChangesNothing(t *testing.T) {
	b := newBed(t)
	b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=0
ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0`)
	settle(b.node)
	before := picture(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		s, err := c.Settings(i.Index)
		if err != nil {
			return err
		}
		return apply(c, i.Index, s, snapshot.InJob)
	})
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}

func TestAnAddressThatIsStillTestedForDuplicatesKeepsItsLocalRoute(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up`)
	const routes = `ip -6 route show table local type local dev hca0`
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		s, err := c.Settings(i.Index)
		if err != nil {
			return err
		}
		if b.node.Run(routes) != "" {
			t.Fatal("the address is not tested any more")
		}
		settle(b.node)
		for _, stage := range []snapshot.Stage{snapshot.InJob, snapshot.Settled} {
			if err := apply(c, i.Index, s, stage); err != nil {
				return err
			}
		}
		diff, err := c.Differences(i.Index, s)
		if len(diff) > 0 {
			t.Errorf("differences: %s", strings.Join(diff, ", "))
		}
		return err
	})
	if b.node.Run(routes) == "" {
		t.Error("the local route of the address is gone")
	}
}

func TestDifferencesNamesWhatIsNotAsItWas(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up mtu 1400; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0`)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		s, err := c.Settings(i.Index)
		if err != nil {
			return err
		}
		b.node.Run(`ip link set hca0 mtu 1500; ip route del 10.9.0.0/16; ip addr add 10.3.0.1/24 dev hca0`)
		diff, err := c.Differences(i.Index, s)
		text := strings.Join(diff, "\n")
		for _, want := range []string{"MTU is 1500, was 1400", "route 10.9.0.0/16 via 10.0.0.1 is missing", "address 10.3.0.1/24 was not there"} {
			if !strings.Contains(text, want) {
				t.Errorf("Differences lack %q:\n%s", want, text)
			}
		}
		return err
	})
}

// awayLong reads the interface's settings, takes what a command takes, and restores the
// settings as if they had been read a hundred seconds ago.
func awayLong(t *testing.T, b *bed, take string) {
	t.Helper()
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		s, err := c.Settings(index)
		if err != nil {
			return err
		}
		s.Taken -= 100 * time.Second
		b.node.Run(take)
		if err := apply(c, index, s, snapshot.Settled); err != nil {
			return err
		}
		diff, err := c.Differences(index, s)
		if len(diff) > 0 {
			t.Errorf("Differences: %q", diff)
		}
		return err
	})
}

func TestLifetimesPassWhileAnInterfaceIsAway(t *testing.T) {
	b := newBed(t)
	b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=0; ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0 valid_lft 600 preferred_lft 400; ip addr add 10.1.0.2/24 dev hca0 valid_lft 90 preferred_lft 50
ip -6 addr add fd00::2/64 dev hca0 nodad valid_lft 600 preferred_lft 50; ip -6 addr add fd01::2/64 dev hca0 nodad valid_lft 90 preferred_lft 50
ip -6 route add fd09::/64 via fd00::1 dev hca0 expires 600; ip -6 route add fd08::/64 via fd00::1 dev hca0 expires 90`)
	awayLong(t, b, "ip addr flush dev hca0; ip -6 addr flush dev hca0; ip -6 route flush dev hca0")
	have := b.node.Run("ip addr show dev hca0; ip -6 route show dev hca0")
	for _, want := range []string{"10.0.0.2/24", "valid_lft 49", "preferred_lft 29", "fd00::2/64", "deprecated", "fd09::/64 via fd00::1 metric 1024 expires 49"} {
		if !strings.Contains(have, want) {
			t.Errorf("%q is not there:\n%s", want, have)
		}
	}
	for _, expired := range []string{"10.1.0", "fd01:", "fd08:"} {
		if strings.Contains(have, expired) {
			t.Errorf("%q is there still:\n%s", expired, have)
		}
	}
}

func TestANeighbourThatIsAnotherByNowIsTheOldOneAgain(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent; ip neigh add proxy 10.0.0.8 dev hca0`)
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		s, err := c.Settings(index)
		if err != nil {
			return err
		}
		b.node.Run(`ip neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent protocol static; ip neigh replace proxy 10.0.0.8 dev hca0 protocol static`)
		if diff, err := c.Differences(index, s); err != nil || len(diff) != 4 {
			t.Errorf("before: %q, %v", diff, err)
		}
		if err := apply(c, index, s, snapshot.Settled); err != nil {
			return err
		}
		diff, err := c.Differences(index, s)
		if len(diff) > 0 {
			t.Errorf("after: %q", diff)
		}
		return err
	})
}

// Others may give an interface an address while a prolog looks at the node's HCAs, one after
// the other.
func TestAnAddressThatComesBetweenTwoLooksHasItsRoutes(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link add other type veth peer name peer; ip link set other up; ip link set peer up; ip addr add 10.1.0.2/24 dev other
sysctl -qw net.ipv6.conf.hca0.accept_dad=0; ip link set hca0 up`)
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		var s snapshot.Settings
		err := c.Once(func() (err error) {
			if _, err := c.Settings(find(t, c, "other").Index); err != nil {
				return err
			}
			b.node.Run("ip addr add 10.9.0.1/24 dev hca0; ip -6 addr add fd77::1/64 dev hca0 nodad")
			s, err = c.Settings(index)
			return err
		})
		if err != nil {
			return err
		}
		return apply(c, index, s, snapshot.InJob)
	})
	have := b.node.Run("ip route show table all dev hca0; ip -6 route show table all dev hca0")
	for _, want := range []string{"10.9.0.0/24", "local 10.9.0.1", "fd77::/64"} {
		if !strings.Contains(have, want) {
			t.Errorf("%q is gone:\n%s", want, have)
		}
	}
}

func TestWhatAnExpiredAddressLeavesGoesOn(t *testing.T) {
	b := newBed(t)
	b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=0 net.ipv6.conf.hca0.forwarding=1; ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0 valid_lft 90 preferred_lft 50; ip addr add 10.0.0.9/24 dev hca0; ip addr add 10.0.0.10/24 dev hca0
ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0; ip route add 10.8.0.0/16 via 10.0.0.1 dev hca0 src 10.0.0.2
ip -6 addr add fd00::2/64 dev hca0 nodad valid_lft 90 preferred_lft 50; ip -6 addr add fd01::2/64 dev hca0 nodad valid_lft 90 preferred_lft 50; ip -6 addr add fd01::3/64 dev hca0 nodad`)
	settle(b.node)
	awayLong(t, b, "ip addr flush dev hca0; ip -6 addr flush dev hca0; ip route flush dev hca0")
	// A work queue adds the anycast route behind the address's (addrconf_dad_completed).
	have := b.node.Run("for i in $(seq 3000); do ip -6 route show table all dev hca0 | grep -q 'anycast fd01::' && break; sleep 0.02; done\nip route show table all dev hca0; ip -6 route show table all dev hca0")
	for _, want := range []string{
		"10.0.0.0/24 proto kernel scope link src 10.0.0.9", "local 10.0.0.9 table local proto kernel scope host src 10.0.0.9",
		"local 10.0.0.10 table local proto kernel scope host src 10.0.0.9", "10.9.0.0/16 via 10.0.0.1", "anycast fd01::",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("%q is not there:\n%s", want, have)
		}
	}
	for _, gone := range []string{"10.0.0.2 ", "10.8.0.0", "fd00::", "fd01::2"} {
		if strings.Contains(have, gone) {
			t.Errorf("%q is there still:\n%s", gone, have)
		}
	}
}

func TestTemporaryAddressesAreTheKernelsToMakeAgain(t *testing.T) {
	b := newBed(t)
	b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=0 net.ipv6.conf.hca0.use_tempaddr=2; ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad mngtmpaddr`)
	const temporary = `ip -6 -o addr show dev hca0 temporary | awk '{print $4}'`
	awaitTemporary := `while [ -z "$(` + temporary + `)" ]; do sleep 0.02; done; ` + temporary
	had := b.node.Run(awaitTemporary)
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		s, err := c.Settings(index)
		if err != nil {
			return err
		}
		b.node.Run("ip link set hca0 down; ip -6 addr flush dev hca0")
		if err := apply(c, index, s, snapshot.Settled); err != nil {
			return err
		}
		b.node.Run(awaitTemporary)
		diff, err := c.Differences(index, s)
		if len(diff) > 0 {
			t.Errorf("Differences: %q", diff)
		}
		return err
	})
	has := b.node.Run(temporary)
	all := b.node.Run("ip -6 -o addr show dev hca0 scope global")
	if had == "" || has == "" || has == had || strings.Count(all, "\n") != 2 {
		t.Errorf("temporary was %s, is %s of\n%s", had, has, all)
	}
}

func TestTenThousandRoutesComeBack(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
for a in $(seq 0 39); do for c in $(seq 0 249); do echo "route add 172.$a.$c.0/24 via 10.0.0.1 dev hca0"; done; done | ip -batch -`)
	settle(b.node)
	before := b.node.Run("ip route show table all | sort")
	s := b.take(t)
	in(t, b.job, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		if err := apply(c, i.Index, s, snapshot.InJob); err != nil {
			return err
		}
		return c.Move(i.Index, b.node.FD(), "hca0", false)
	})
	in(t, b.node, func(c *snapshot.Conn) error { return apply(c, find(t, c, "hca0").Index, s, snapshot.Settled) })
	if diff := netnstest.Diff(before, b.node.Run("ip route show table all | sort")); diff != "" {
		t.Errorf("the routes are not as they were:\n%.2000s", diff)
	}
}

func TestAnInterfaceWhoseNameIsTakenWhereItGoesStays(t *testing.T) {
	for name, taken := range map[string]string{
		"a name":              "ip link add hca0 type veth peer name hca0far",
		"an alternative name": "ip link add one type veth peer name two; ip link property add dev one altname hca0",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.job.Run(taken)
			in(t, b.node, func(c *snapshot.Conn) error {
				i := find(t, c, "hca0")
				if err := c.Move(i.Index, b.job.FD(), "hca0", true); !errors.Is(err, link.ErrNameTaken) {
					t.Errorf("Move: %v, wanted %v", err, link.ErrNameTaken)
				}
				_, err := c.Find(i.ID)
				return err
			})
		})
	}
}

func TestAnInterfaceHasItsIndexAgainThoughTheJobHadThatForAnother(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(index int) string // on the node
		again     bool
	}{
		"free": {func(int) string { return "true" }, true},
		"taken": {func(index int) string {
			return fmt.Sprintf("ip link add late index %d type veth peer name latefar", index)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			var was int
			in(t, b.node, func(c *snapshot.Conn) error { was = find(t, c, "hca0").Index; return nil })
			b.job.Run(fmt.Sprintf("ip link add jobs index %d type veth peer name jobsfar", was))
			if s := b.take(t); s.Index != was {
				t.Errorf("its settings say index %d, it had %d", s.Index, was)
			}
			b.node.Run(tt.meanwhile(was))
			in(t, b.job, func(c *snapshot.Conn) error {
				i := find(t, c, "hca0")
				if i.Index == was {
					t.Errorf("the job has two of index %d", was)
				}
				return c.Return(i.Index, b.node.FD(), "hca0", was)
			})
			in(t, b.node, func(c *snapshot.Conn) error {
				if is := find(t, c, "hca0").Index; (is == was) != tt.again {
					t.Errorf("it has index %d on the node, it had %d", is, was)
				}
				return nil
			})
		})
	}
}

func TestAMoveThatTheKernelRefusesChangesNothing(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0`)
	settle(b.node)
	before := picture(b.node)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in(t, b.node, func(c *snapshot.Conn) error {
		if err := c.Move(find(t, c, "hca0").Index, int(file.Fd()), "hca0", true); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Move into a file that is no namespace: %v, wanted %v", err, unix.EINVAL)
		}
		return nil
	})
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}

// ip of Debian 12 has no words for these sizes.
func TestOffloadSizesOfIPv4ComeBack(t *testing.T) {
	b := newBed(t)
	set := func(ns *netnstest.NS, gso, gro int) {
		t.Helper()
		err := ns.Do(func() error {
			l, err := netlink.LinkByName("hca0")
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetGSOIPv4MaxSize(l, gso), netlink.LinkSetGROIPv4MaxSize(l, gro))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sizes := func() (sizes [4]uint32) {
		t.Helper()
		err := b.node.Do(func() error {
			l, err := netlink.LinkByName("hca0")
			if err != nil {
				return err
			}
			a := l.Attrs()
			sizes = [4]uint32{a.GSOMaxSize, a.GROMaxSize, a.GSOIPv4MaxSize, a.GROIPv4MaxSize}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sizes
	}
	b.node.Run("ip link set hca0 gso_max_size 150000 gro_max_size 160000 up")
	set(b.node, 120000, 130000)
	before := sizes()
	if want := [4]uint32{150000, 160000, 120000, 130000}; before != want {
		t.Fatalf("the kernel has the sizes %v, wanted %v", before, want)
	}
	s := b.take(t)
	b.job.Run("ip link set hca0 gso_max_size 65536 gro_max_size 65536")
	set(b.job, 65536, 65536)
	in(t, b.job, func(c *snapshot.Conn) error { return c.Move(find(t, c, "hca0").Index, b.node.FD(), "hca0", false) })
	in(t, b.node, func(c *snapshot.Conn) error { return apply(c, find(t, c, "hca0").Index, s, snapshot.Settled) })
	if after := sizes(); after != before {
		t.Errorf("the sizes are %v, were %v", after, before)
	}
}

// settle waits until the kernel has taken the addresses of what is up; on an
// interface that is down they stay tentative.
func settle(n *netnstest.NS) {
	n.Run(`while ip -6 addr show up | grep -q tentative; do sleep 0.02; done`)
}

func find(t *testing.T, c *snapshot.Conn, name string) link.Interface {
	t.Helper()
	list, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("no interface %s", name)
	return link.Interface{}
}

func throughJSON(t *testing.T, s snapshot.Settings) snapshot.Settings {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out snapshot.Settings
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnAnycastRouteThatStayedWhenForwardingWasSwitchedOffIsLeft(t *testing.T) {
	for name, end := range map[string]string{
		"forwarding is switched off": "sysctl -qw net.ipv6.conf.hca0.forwarding=0",
		"the address is removed":     "ip -6 addr flush dev hca0 scope link",
	} {
		t.Run(name, func(t *testing.T) { anycastStays(t, end) })
	}
}

func anycastStays(t *testing.T, end string) {
	b := newBed(t)
	const anycast = "ip -6 route show table local type anycast dev hca0"
	b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=0; ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad
until ip -6 addr show dev hca0 scope link -tentative | grep -q inet6; do sleep 0.02; done
sysctl -qw net.ipv6.conf.hca0.forwarding=1; ip link set hca0 arp off
until grep -q 'hca0 .*fe80.* 2$' /proc/net/anycast6; do sleep 0.02; done; ` + end)
	if got := b.node.Run(anycast); !strings.Contains(got, "fe80::") {
		t.Fatalf("the kernel removed it: %s", got)
	}
	s := b.take(t)
	in(t, b.job, func(c *snapshot.Conn) error { return c.Move(find(t, c, "hca0").Index, b.node.FD(), "hca0", false) })
	in(t, b.node, func(c *snapshot.Conn) error { return restore(t, c, find(t, c, "hca0").Index, s) })
	if got := b.node.Run(anycast); strings.Contains(got, "fe80::") {
		t.Errorf("the interface has come back with %s", got)
	}
}
