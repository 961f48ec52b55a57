package check_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/admin/check"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
)

func TestWhatAFirewallDropsIsNamedWithWhatItMustAccept(t *testing.T) {
	for want, change := range map[string]func(*check.Site){
		"warning  firewall: the node drops what jobs send to slurmd of their own node: srun in a job starts no step there; " +
			"have the firewall's own configuration accept TCP port 6818; nft list ruleset and iptables-legacy -S show its rules\n": func(s *check.Site) {
			s.Lost = []check.Lost{{What: "what jobs send to slurmd of their own node", Accept: "TCP port 6818", Without: "srun in a job starts no step there"}}
		},
		"warning  firewall: what it drops of jobs' packets is not known: no veth; look with nft list ruleset, and iptables-legacy -S\n": func(s *check.Site) {
			s.LostErr = errors.New("no veth")
		},
	} {
		s := site()
		change(&s)
		if got := about(t, "firewall", s.Run()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestANftablesServiceIsNamedOnlyIfAReloadDeletesGresnetsTables(t *testing.T) {
	const unit, debian, redHat = "etc/systemd/system/sysinit.target.wants/nftables.service", "etc/nftables.conf", "etc/sysconfig/nftables.conf"
	flushes := "#!/usr/sbin/nft -f\n\nflush ruleset\n"
	for _, c := range []struct {
		files map[string]string
		want  bool
	}{
		{map[string]string{debian: flushes}, false},
		{map[string]string{unit: "", debian: flushes}, true},
		{map[string]string{unit: "", debian: "# flush ruleset\ndelete table inet site\n"}, false},
		{map[string]string{unit: "", redHat: ""}, true},
		{map[string]string{unit: ""}, false},
	} {
		s := site()
		for path, text := range c.files {
			s.Root.(fstest.MapFS)[path] = file(text)
		}
		if got := printed(t, s.Run()); strings.Contains(got, "warning  firewall: nftables.service deletes gresnet's tables") != c.want {
			t.Errorf("%q: got\n%s", c.files, got)
		}
	}
}

func pool(kind, addresses string) *jobnet.Pool {
	r, err := config.ParseRange(addresses)
	if err != nil {
		panic(err)
	}
	return &jobnet.Pool{Kind: kind, Addresses: r, Auto: kind == config.UplinkAuto}
}

func TestUplinksAreHeldAgainstTheNode(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*check.Site)
		want  string // the lines about uplinks
	}{
		{"none", func(*check.Site) {}, ""},
		{"well", func(s *check.Site) { s.Uplinks = pool("macvlan", "10.8.0.0/30") },
			"ok       uplink: macvlan: addresses for 4 jobs, of 10.8.0.0-10.8.0.3\n"},
		{"too few", func(s *check.Site) { s.Uplinks = pool("macvlan", "10.8.0.0/32") },
			"warning  uplink: there are addresses for 1 jobs, and HCAs for 2: a job without one is refused; make uplink.addresses or uplink.share larger\n"},
		{"too few blocks of ports", func(s *check.Site) { s.Uplinks = pool("auto", "198.19.0.1/32") },
			"warning  uplink: there are blocks of ports for 1 jobs, and HCAs for 2: a job without one has no way out; narrow net.ipv4.ip_local_port_range, on all nodes and slurmctld's hosts alike\n"},
		{"no block of ports, for which prologs fail", func(s *check.Site) {
			s.Config.Uplink.Kind, s.UplinksErr = config.UplinkAuto, hint.With(fmt.Errorf("uplink: %w", jobnet.ErrNoPorts), "narrow it")
		}, "error    uplink: the node leaves no ports for jobs; narrow it\n"},
		{"what a prolog would fail with", func(s *check.Site) { s.UplinksErr = hint.With(errors.New("uplink: eth0 is down"), "up with it") },
			"error    uplink: eth0 is down; up with it\n"},
		{"a node that lets no job out", func(s *check.Site) {
			s.Config.Uplink.Kind, s.UplinksErr = config.UplinkAuto, hint.With(errors.New("uplink: the node has no way out"), "make one")
		}, "warning  uplink: jobs have no way out of their own network: the node has no way out; make one\n"},
		{"a way out", func(s *check.Site) {
			s.Uplinks = pool("auto", "198.19.0.0/30")
			s.Uplinks.Leads = []link.Interface{{Name: "eth0"}, {Name: "eth1"}}
			s.Root.(fstest.MapFS)["etc/slurm/plugstack.conf.d/20.conf"] = file("required spank_gresnet.so batch\n")
		}, "ok       uplink: auto: blocks of ports for 4 jobs, out by eth0, eth1\n"},
		{"an interface that was made again under a job", func(s *check.Site) {
			s.Uplinks, s.Unjudged = pool("auto", "198.19.0.0/30"), []string{"eth0"}
		}, "ok       uplink: auto: blocks of ports for 4 jobs\n" +
			"warning  uplink: eth0 lacks gresnet's traffic filters: running jobs get nothing by it, and what comes for their ports reaches whoever listens there on the node; the next prolog attaches them\n"},
		{"a stub whose servers are known", func(s *check.Site) {
			s.Uplinks = pool("macvlan", "10.8.0.0/30")
			s.Root.(fstest.MapFS)["etc/resolv.conf"] = file("nameserver 127.0.0.53\n")
			s.Root.(fstest.MapFS)["run/systemd/resolve/resolv.conf"] = file("nameserver 10.0.0.53\n")
		}, "ok       uplink: macvlan: addresses for 4 jobs, of 10.8.0.0-10.8.0.3\n"},
		{"a stub", func(s *check.Site) {
			s.Uplinks = pool("macvlan", "10.8.0.0/30")
			s.Root.(fstest.MapFS)["etc/resolv.conf"] = file("# stub\nnameserver 127.0.0.53\noptions edns0\n")
		}, "ok       uplink: macvlan: addresses for 4 jobs, of 10.8.0.0-10.8.0.3\n" +
			"warning  uplink: /etc/resolv.conf has nameserver 127.0.0.53, which is the job's own loopback inside: names are not resolved there; name the network's in uplink.nameservers\n"},
		{"a macvlan and a script inside", func(s *check.Site) {
			s.Uplinks = pool("macvlan", "10.8.0.0/30")
			s.Root.(fstest.MapFS)["etc/slurm/plugstack.conf.d/20.conf"] = file("required spank_gresnet.so batch\n")
		}, "ok       uplink: macvlan: addresses for 4 jobs, of 10.8.0.0-10.8.0.3\n" +
			"warning  uplink: plugstack.conf says batch, and from a macvlan the node itself is not reached: srun in a script does not reach the node's own slurmd; take kind = \"auto\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			c.spoil(&s)
			if got := about(t, "uplink", s.Run()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
