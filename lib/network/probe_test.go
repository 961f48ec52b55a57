package network_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/network"
	"gresnet/lib/network/virtual"
	"gresnet/test/await"
	"gresnet/test/netnstest"
)

// The rules are nft's, or after "legacy" and "nft" those of one iptables or the other.
func TestOnlyWhatAFirewallDropsOfJobsPacketsIsLost(t *testing.T) {
	netnstest.Slow(t)
	if out, err := exec.Command("../../test/need", "nftables", "iptables").CombinedOutput(); err != nil {
		netnstest.Skip(t, "needs nft and iptables: "+string(out))
	}
	const input = "table inet f { chain c { type filter hook input priority 0; "
	for rules, want := range map[string]string{
		"":                                    "",
		input + "policy drop; }; }":           "slurmd overlay",
		input + "policy drop; accept; }; }":   "",
		input + "udp dport 489 reject; }; }":  "overlay",
		input + "iifname eth0 drop; }; }":     "slurmd overlay",
		input + "ct state invalid drop; }; }": "",
		input + "ct state new tcp flags syn / fin,syn,rst,ack tcp dport 6818 reject with tcp reset; }; }":      "slurmd",
		input + "policy drop; udp sport 600-1000 udp dport 489 accept; tcp dport vmap { 6818 : accept }; }; }": "",
		"table inet f { chain c { type filter hook forward priority 0; policy drop; }; }":                      "",
		"table ip f { chain c { type filter hook prerouting priority raw; ip saddr 10.9.0.0/24 drop; }; }":     "slurmd overlay",
		"legacy -P INPUT DROP":                     "slurmd overlay",
		"legacy -P FORWARD DROP":                   "",
		"nft -A INPUT -p tcp --dport 6818 -j DROP": "slurmd",
		"nft -A INPUT -m conntrack --ctstate NEW -p udp --dport 489 -j ACCEPT; iptables-nft -P INPUT DROP": "slurmd",
	} {
		host := netnstest.New(t)
		host.Run("ip link add eth0 type veth peer name far; ip link set far up; ip address add 10.9.0.7/24 dev eth0; ip link set eth0 up; echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter")
		if words, is := strings.CutPrefix(rules, "legacy "); is {
			host.Run("iptables-legacy " + words)
		} else if words, is := strings.CutPrefix(rules, "nft "); is {
			host.Run("iptables-nft " + words)
		} else if rules != "" {
			host.Run("nft '" + rules + "'")
		}
		const seen = "ls /sys/class/net; ip route | sed s/linkdown//; ip rule; nft -s list ruleset" // the carrier comes when it comes
		var by int
		if err := host.Do(func() error {
			i, err := net.InterfaceByName("eth0")
			by = i.Index
			return err
		}); err != nil {
			t.Fatal(err)
		}
		before := host.Run(seen)
		job, other, own := netip.MustParseAddr("198.19.15.255"), netip.MustParseAddr("10.9.0.6"), netip.MustParseAddr("10.9.0.7")
		packets := []virtual.Packet{
			{From: other, To: own, Protocol: virtual.TCP, FromPort: 40000, Port: 6818, By: by},
			{From: other, To: own, Protocol: virtual.UDP, FromPort: 600, Port: 489, By: by},
		}
		names := map[uint16]string{6818: "slurmd", 489: "overlay"}
		lost, err := network.Lost(host.NS, job, packets)
		if err != nil {
			t.Errorf("%q: %v", rules, err)
		}
		var got []string
		for _, p := range lost {
			got = append(got, names[p.Port])
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: lost %q, want %q", rules, got, want)
		}
		if diff := netnstest.Diff(before, host.Run(seen)); diff != "" {
			t.Errorf("%q: it leaves\n%s", rules, diff)
		}
	}
}

// probing is the path of the namespace in which the test's program, run again, probes until it is killed.
const probing = "GRESNET_TEST_PROBING"

func TestWhatAProbeMadeEndsWithItsProcess(t *testing.T) {
	if path := os.Getenv(probing); path != "" {
		probe(t, path)
		return
	}
	if out, err := exec.Command("../../test/need", "nftables").CombinedOutput(); err != nil {
		netnstest.Skip(t, "needs nft: "+string(out))
	}
	host := netnstest.New(t)
	host.Run("ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; nft 'table ip f { chain c { type filter hook input priority 0; policy drop; }; }'")
	made := func() string { return host.Run("ip -br link; nft list tables") }
	before := made()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), probing+"="+host.Path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	await.Until(t, "the probe has made all", func() bool {
		now := made()
		return strings.Contains(now, "job0") && strings.Contains(now, "gresnet_check")
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	await.Until(t, "all that it made is gone", func() bool { return made() == before })
}

// probe sends what is dropped, again and again.
func probe(t *testing.T, path string) {
	host, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	job, own := netip.MustParseAddr("198.19.15.255"), netip.MustParseAddr("127.0.0.1")
	var by int
	if err := host.Do(func() error {
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			by = i.Index
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(await.Most(t)); time.Now().Before(end); {
		if _, err := network.Lost(host, job, []virtual.Packet{{From: job, To: own, Protocol: virtual.TCP, Port: 6818, By: by}}); err != nil {
			t.Fatal(err)
		}
	}
}
