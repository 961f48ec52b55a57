package lease

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// What a firewall shuts, on the first of a job's nodes, and what its site adds. Each rule is one that gresnet check or
// docs/operators.md names. What jobs send out, and Slurm's calls, no firewall of the node sees.
var firewalls = []struct{ name, rules, shuts, accept string }{
	{"nftables with a policy of drop", `nft 'table inet site {
	chain input { type filter hook input priority 0; policy drop; ct state established,related accept; iif lo accept; };
	chain output { type filter hook output priority 0; policy drop; };
	chain forward { type filter hook forward priority 0; policy drop; ct state established,related accept; }; }'`,
		"slurmd peer",
		`nft 'insert rule inet site input iifname eth0 ip saddr 10.9.0.0/24 tcp dport 6818 accept'; nft 'insert rule inet site input udp sport 600-1000 udp dport 489 accept'
nft 'insert rule inet site output udp dport 489 accept'; nft 'insert rule inet site output tcp sport 6818 accept'`},
	{"iptables-legacy with a policy of drop", `I() { iptables-legacy "$@"; }; I -P INPUT DROP; I -P FORWARD DROP; I -A INPUT -i lo -j ACCEPT
I -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; I -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
		"slurmd peer",
		`I() { iptables-legacy "$@"; }; I -I INPUT -i eth0 -p tcp --dport 6818 -j ACCEPT; I -I INPUT -p udp --sport 600:1000 --dport 489 -j ACCEPT`},
}

func TestAJobsWaysAreOpenOnceAFirewallAcceptsWhatCheckSays(t *testing.T) {
	netnstest.Slow(t)
	if out, err := exec.Command("../../test/need", "nftables", "iptables").CombinedOutput(); err != nil {
		netnstest.Skip(t, "needs nft and iptables: "+string(out))
	}
	for _, f := range firewalls {
		t.Run(f.name, func(t *testing.T) {
			c := newCluster(t)
			c.both(jobJ, "prolog")
			j1 := c.job(jobJ, 0)
			c.serve(c.node[0].Path, "n1", "0.0.0.0", "6818")
			c.serve(c.h.Path, "ctl", "0.0.0.0", "80")
			c.serve(c.job(jobJ, 1), "j2", "0.0.0.0", "8080")
			c.serve(j1, "j1", "0.0.0.0", blockJ)
			look := func(when, shut string) {
				t.Helper()
				for _, way := range []struct{ name, path, to, who string }{
					{"slurmd", j1, "10.9.0.1 6818", "n1"}, {"out", j1, "10.9.0.99 80", "ctl"}, {"peer", j1, "10.9.0.2 8080", "j2"}, {"called", c.h.Path, "10.9.0.1 " + blockJ, "j1"},
				} {
					patience := patient
					if strings.Contains(shut, way.name) {
						way.who, patience = "silence", brief
					}
					got := c.in(way.path, "tcp "+way.to+" "+strconv.Itoa(patience)+" \n", "python3", c.program, "call")
					if who, _, _ := strings.Cut(got, "<"); who != way.who {
						t.Errorf("%s, %s: %q, want %s", when, way.name, got, way.who)
					}
				}
			}
			look("without a firewall", "")
			c.node[0].Run(f.rules)
			look("as the firewall is", f.shuts)
			c.node[0].Run(f.accept)
			look("after what check says", "")
			c.both(jobJ, "epilog")
		})
	}
}
