package nft_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/nft"
	"gresnet/test/netnstest"
)

// toSlurmd is what a job sends to slurmd of its own node, and passing what it sends beyond.
var (
	toSlurmd = nft.Packet{
		From: netip.MustParseAddr("198.19.0.1"), To: netip.MustParseAddr("10.0.0.7"),
		Protocol: unix.IPPROTO_TCP, Port: 6818, In: "job1",
	}
	passing = nft.Packet{From: toSlurmd.From, Protocol: unix.IPPROTO_TCP, Port: 6817, In: "job1", Out: "eth0"}
	called  = nft.Packet{From: netip.MustParseAddr("10.0.0.7"), To: toSlurmd.From, Protocol: unix.IPPROTO_TCP, Port: 16384, In: "eth0", Out: "job1", DNAT: true}
	overlay = nft.Packet{From: netip.MustParseAddr("10.0.0.7"), Protocol: unix.IPPROTO_UDP, Port: 489, FromPort: 600, In: "eth0"}
)

// A rule of nft's that is put into a chain with a policy of drop, and the packets that get through.
func TestAChainThatDropsAPacketIsNamedUnlessARuleIsCertainToAcceptIt(t *testing.T) {
	netnstest.Slow(t)
	needs(t)
	const job, other, both, neither = "job", "overlay", "job overlay", ""
	for _, c := range []struct{ rules, through string }{
		{"", neither}, {"accept", both}, {"drop; accept", neither},
		{"ip saddr 10.0.0.0/8 accept", other}, {"ip saddr { 10.0.0.0/8, 198.18.0.0/15 } accept", both}, {"ip saddr 198.19.0.0-198.19.15.255 accept", job},
		{"ip saddr != 198.19.0.0/16 accept", other}, {"ip saddr 10.0.0.0/8 drop; accept", job}, {"ip saddr { 198.19.0.2, 10.0.0.7 } accept", other},
		{"ip daddr 10.0.0.7 accept", job}, {"ip daddr 10.0.0.8 accept", neither}, {"ip daddr != 10.0.0.8 accept", job},
		{"tcp dport 6818 accept", job}, {"tcp dport { 22, 6817-6818 } accept", job}, {"tcp dport 6000-6817 accept", neither}, {"udp dport 489 accept", other},
		{"tcp dport vmap { 22 : drop, 6818 : accept }", job}, {"th dport { 489, 6818 } accept", both}, {"tcp dport > 6817 accept", job}, {"tcp dport != 22 accept", job},
		{"iifname eth0 accept", other}, {`iifname "job*" accept`, job}, {"iifname != lo accept", both}, {`iifname { "job1", "eth0" } accept`, both},
		{`iifname vmap { "eth0" : jump called, "job1" : goto called }`, other}, {"jump called; accept", both}, {"goto called", other},
		{"ct state established,related accept", neither}, {"ct state new accept", both}, {"ct state vmap { established : accept, new : jump called }", other},
		{"ct state invalid drop; ct state new tcp dport 6818 counter accept", job}, {"reject", neither}, {"reject; accept", neither},
		{"meta l4proto tcp accept", job}, {"ip protocol udp accept", other}, {"meta nfproto ipv6 accept", neither}, {"fib daddr type local accept", both},
		{"udp sport 600-1000 udp dport 489 accept", other}, {"udp sport 600 udp dport 489 accept", other}, {"udp sport 601-1000 accept", neither}, {"tcp sport != 22 accept", neither},
		{"meta mark 7 accept", neither}, {"tcp sport 1024 accept", neither}, {"limit rate 9/second accept", neither}, {"meta skuid 0 accept", neither}, {"return; accept", neither},
		{`log prefix "x" accept`, both}, {`tcp dport 6818 accept comment "y"`, job}, {"ip saddr . tcp dport { 198.19.0.1 . 6818 } accept", neither},
	} {
		ns := netnstest.New(t)
		ns.Run("nft 'table inet filter { chain called { ip saddr 10.0.0.0/8 accept; }; chain input { type filter hook input priority 0; policy drop; " + c.rules + "; }; }'")
		got := ""
		for _, p := range []nft.Packet{toSlurmd, overlay} {
			names, err := drops(ns, p)
			switch {
			case err != nil || len(names) > 1 || len(names) == 1 && names[0] != "inet filter input":
				t.Errorf("%s: got %v, %v", c.rules, names, err)
			case len(names) == 0 && p == toSlurmd:
				got = job
			case len(names) == 0:
				got = map[string]string{"": other, job: both}[got]
			}
		}
		if got != c.through {
			t.Errorf("%q: got %q through, want %q", c.rules, got, c.through)
		}
	}
}

// needs installs what writes rules as sites do.
func needs(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("../../../test/need", "nftables", "iptables").CombinedOutput(); err != nil {
		netnstest.Skip(t, "needs nft and iptables: "+string(out))
	}
}

func drops(ns *netnstest.NS, p nft.Packet) (names []string, err error) {
	err = ns.Do(func() error {
		names, err = nft.Dropping(p)
		return err
	})
	return names, err
}

func TestEachChainThatSeesAPacketIsAsked(t *testing.T) {
	needs(t)
	ns := netnstest.New(t)
	ns.Run(`nft '
table ip one { chain FORWARD { type filter hook forward priority 0; policy drop; }; chain INPUT { type filter hook input priority 0; policy accept; }; }
table inet two { chain forward { type filter hook forward priority 1; policy accept; ip saddr 198.19.0.0/16 jump zone; reject; }; chain zone { oifname "eth1" accept; }; }
table inet three { chain forward { type filter hook forward priority 2; policy accept; }; }
table ip6 four { chain forward { type filter hook forward priority 0; policy drop; }; chain input { type filter hook input priority 0; policy drop; }; }
table inet six { chain forward { type filter hook forward priority 3; policy drop; ct status dnat accept; }; }
table inet five { chain input { type filter hook input priority 10; policy accept; ct state vmap { established : accept, invalid : drop }; iifname "lo" accept; jump zones; reject with icmpx admin-prohibited; }; chain zones { ip saddr 10.0.0.0/8 goto trusted; }; chain trusted { accept; }; }'`)
	for _, c := range []struct {
		packet nft.Packet
		want   string
	}{{passing, "[ip one FORWARD inet two forward inet six forward]"}, {called, "[ip one FORWARD inet two forward]"}, {toSlurmd, "[inet five input]"}, {overlay, "[]"}} {
		if names, err := drops(ns, c.packet); err != nil || fmt.Sprint(names) != c.want {
			t.Errorf("%+v: got %v, %v, want %s", c.packet, names, err, c.want)
		}
	}
	if names, err := drops(netnstest.New(t), passing); err != nil || names != nil {
		t.Errorf("without a table: %v, %v", names, err)
	}
}

func TestRulesOfBothIptablesAreReadLikeOthers(t *testing.T) {
	netnstest.Slow(t)
	needs(t)
	const dropped = "INPUT"
	for _, c := range []struct {
		rules  string // after a policy of drop
		packet nft.Packet
		want   string
	}{
		{"-A INPUT -i lo -j ACCEPT; I -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; I -A INPUT -s 10.0.0.0/8 -j ACCEPT", toSlurmd, dropped},
		{"-A INPUT -s 10.0.0.0/8 -j ACCEPT", overlay, ""},
		{"-A INPUT ! -s 10.0.0.0/8 -j ACCEPT", overlay, dropped},
		{"-A INPUT ! -s 10.0.0.0/8 -j ACCEPT", toSlurmd, ""},
		{"-A INPUT -d 10.0.0.7 -j ACCEPT", toSlurmd, ""},
		{"-A INPUT -d 10.0.0.7 -j ACCEPT", overlay, dropped}, // nobody knows which address it comes to
		{"-A INPUT -i job+ -p tcp --dport 6818 -j ACCEPT", toSlurmd, ""},
		{"-A INPUT ! -i eth0 -j ACCEPT", overlay, dropped},
		{"-A INPUT ! -p tcp -j ACCEPT", overlay, ""},
		{"-A INPUT -p tcp -m tcp --dport 6800:6900 -m comment --comment x -j ACCEPT", toSlurmd, ""},
		{"-A INPUT -p tcp -m tcp --syn --dport 6818 -j ACCEPT", toSlurmd, dropped},
		{"-A INPUT -p udp -m udp --dport 488 -j ACCEPT", overlay, dropped},
		{"-A INPUT -p udp -m udp --dport 489 -j ACCEPT", overlay, ""},
		{"-A INPUT -p udp --sport 600:1000 --dport 489 -j ACCEPT", overlay, ""},
		{"-A INPUT -p udp --sport 601:1000 --dport 489 -j ACCEPT", overlay, dropped},
		{"-A INPUT -p tcp --sport 600:1000 -j ACCEPT", toSlurmd, dropped},
		{"-A INPUT -j REJECT; I -P INPUT ACCEPT", toSlurmd, dropped},
		{"-A INPUT -j LOG; I -A INPUT -j ACCEPT", toSlurmd, ""},
		{"-N SITE; I -A INPUT -j SITE; I -A SITE -s 198.19.0.0/16 -j ACCEPT", toSlurmd, ""},
		{"-N SITE; I -A INPUT -j SITE; I -A INPUT -j ACCEPT; I -A SITE -s 198.19.0.0/16 -j RETURN; I -A SITE -j DROP", toSlurmd, ""},
		{"-N SITE; I -A INPUT -j SITE; I -A INPUT -j ACCEPT; I -A SITE -s 198.19.0.0/16 -j RETURN; I -A SITE -j DROP", overlay, dropped},
		{"-N SITE; I -A INPUT -g SITE; I -A INPUT -j ACCEPT", toSlurmd, dropped},
		{"-N SITE; I -A INPUT -j RETURN; I -A INPUT -j ACCEPT", toSlurmd, dropped},
		{"-A INPUT -m statistic --mode random --probability 0.5 -j ACCEPT", toSlurmd, dropped}, // cannot be told
		{"-P FORWARD DROP; I -P INPUT ACCEPT", passing, "FORWARD"},
		{"-P FORWARD DROP; I -P INPUT ACCEPT", toSlurmd, ""},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -i job+ -o eth0 -j ACCEPT", passing, ""},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -i job+ -o eth1 -j ACCEPT", passing, "FORWARD"},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -s 198.19.0.0/16 -j ACCEPT; I -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", called, "FORWARD"},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -o job+ -m conntrack --ctstate DNAT -j ACCEPT", called, ""},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -m conntrack --ctstate DNAT -j ACCEPT", passing, "FORWARD"},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -d 198.19.0.0/16 -m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j ACCEPT", called, ""},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -m conntrack ! --ctstate ESTABLISHED -j ACCEPT", called, ""},
		{"-P FORWARD DROP; I -P INPUT ACCEPT; I -A FORWARD -m conntrack --ctstatus ASSURED -j ACCEPT", called, "FORWARD"},
	} {
		for _, iptables := range []string{"iptables-nft", "iptables-legacy"} {
			ns := netnstest.New(t)
			ns.Run("I() { " + iptables + ` "$@"; }; I -P INPUT DROP; I ` + c.rules)
			of, dropping, none := "ip filter ", nft.Dropping, nft.DroppingLegacy
			if iptables == "iptables-legacy" {
				of, dropping, none = "filter ", nft.DroppingLegacy, nft.Dropping
			}
			want := "[]"
			if c.want != "" {
				want = "[" + of + c.want + "]"
			}
			err := ns.Do(func() error {
				got, err := dropping(c.packet)
				more, other := none(c.packet)
				if fmt.Sprint(got) != want || len(more) > 0 {
					t.Errorf("%s: %s: got %v and %v, want %s", iptables, c.rules, got, more, want)
				}
				return errors.Join(err, other)
			})
			if err != nil {
				t.Errorf("%s: %s: %v", iptables, c.rules, err)
			}
		}
	}
}

func TestWhereNobodyUsesIptablesLegacyNoTableOfItsIsMade(t *testing.T) {
	ns := netnstest.New(t)
	err := ns.Do(func() error {
		if names, err := nft.DroppingLegacy(passing); err != nil || names != nil {
			return fmt.Errorf("got %v, %v", names, err)
		}
		text, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
		if len(text) > 0 || err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("there is %q, %v", text, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
