package check

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/network/jobnet"
)

// uplinks holds [uplink] against the node.
func (s Site) uplinks() []Finding {
	const about = "uplink"
	if s.UplinksErr != nil {
		f := failed(about, s.UplinksErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ")                                               // as a prolog has it
		if s.Config.Uplink.Kind == config.UplinkAuto && !errors.Is(s.UplinksErr, jobnet.ErrNoPorts) { // for that prologs fail
			f.Level, f.Text = Warning, "jobs have no way out of their own network: "+f.Text
		}
		return []Finding{f}
	}
	if s.Uplinks == nil {
		return nil
	}
	var all []Finding
	switch jobs, room := s.mapped(), s.Uplinks.Room(); {
	case room < jobs && s.Uplinks.Auto:
		all = append(all, warn(about, "GN898 narrow net.ipv4.ip_local_port_range, on all nodes and slurmctld's hosts alike", "there are blocks of ports for %d jobs, and HCAs for %d: a job without one has no way out", room, jobs))
	case room < jobs:
		all = append(all, warn(about, "GN130 make uplink.addresses or uplink.share larger", "there are addresses for %d jobs, and HCAs for %d: a job without one is refused", room, jobs))
	case s.Uplinks.Auto:
		all = append(all, ok(about, "%s: blocks of ports for %d jobs%s", s.Uplinks.Kind, room, leads(s.Uplinks)))
	default:
		all = append(all, ok(about, "%s: addresses for %d jobs, of %s", s.Uplinks.Kind, room, s.Uplinks.Addresses))
	}
	for _, name := range s.Unjudged {
		all = append(all, warn(about, "GN900 the next prolog attaches them", "%s lacks gresnet's traffic filters: running jobs get nothing by it, and what comes for their ports reaches whoever listens there on the node", name))
	}
	if stub := s.stub(); stub != "" && len(s.Config.Uplink.Nameservers) == 0 {
		all = append(all, warn(about, "GN131 name the network's in uplink.nameservers", "/etc/resolv.conf has nameserver %s, which is the job's own loopback inside: names are not resolved there", stub))
	}
	return all
}

// leads says what jobs leave the node by.
func leads(p *jobnet.Pool) string {
	var names []string
	for _, i := range p.Leads {
		names = append(names, i.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return ", out by " + strings.Join(names, ", ")
}

// Lost is what this node drops of what jobs and other nodes send, though it is to pass. Accept says what a
// firewall has to accept, and Without what does not work otherwise.
type Lost struct{ What, Accept, Without string }

// firewall warns of what the node drops.
func (s Site) firewall() (all []Finding) {
	all = s.flushes()
	if s.LostErr != nil {
		return append(all, warn("firewall", cmp.Or(hint.Whole(s.LostErr), "GN391 look with nft list ruleset, and iptables-legacy -S"), "what it drops of jobs' packets is not known: %s", s.LostErr))
	}
	if len(s.Bypassed) > 0 {
		all = append(all, ok("firewall", "jobs' packets do not come by %s, which drop what the node's programs send: [uplink] deny says where jobs do not send", strings.Join(s.Bypassed, ", ")))
	}
	for _, l := range s.Lost {
		all = append(all, warn("firewall", "GN392 have the firewall's own configuration accept "+l.Accept+"; nft list ruleset and iptables-legacy -S show its rules",
			"the node drops %s: %s", l.What, l.Without))
	}
	return all
}

// flushes warns of a nftables.service that deletes all tables when it is reloaded: Red Hat's does, and others
// if their file says so.
func (s Site) flushes() []Finding {
	enabled, _ := fs.Glob(s.Root, "etc/systemd/system/*.wants/nftables.service")
	text, _ := fs.ReadFile(s.Root, "etc/nftables.conf")
	_, err := fs.Stat(s.Root, "etc/sysconfig/nftables.conf")
	if len(enabled) == 0 || err != nil && !strings.Contains("\n"+string(text), "\nflush ruleset") {
		return nil
	}
	return []Finding{warn("firewall", "GN735 let its file and its ExecReload delete the site's own tables alone", "nftables.service deletes gresnet's tables when it is reloaded: others can then send into the overlays of running jobs")}
}

// mapped returns how many HCAs jobs can have, and so how many jobs can have any at once.
func (s Site) mapped() (n int) {
	for _, h := range s.Inventory.HCAs {
		if h.Gres != "" {
			n++
		}
	}
	return n
}

// stub returns a nameserver on the node's loopback (systemd-resolved's, for one), if no file
// says which servers it asks.
func (s Site) stub() string {
	text, err := fs.ReadFile(s.Root, "etc/resolv.conf")
	if err != nil {
		return ""
	}
	if run, err := fs.Sub(s.Root, "run"); err == nil && jobnet.Upstream(string(text), run) != "" {
		return ""
	}
	for _, a := range jobnet.Servers(string(text)) {
		if a.IsLoopback() {
			return a.String()
		}
	}
	return ""
}

// neighbours warns of scripts that are inside, and cannot reach what is on their
// own node: the kernel keeps a macvlan from its parent's addresses.
func (s Site) neighbours(who string) []Finding {
	if s.Uplinks == nil || s.Uplinks.Auto || who == "steps" || who == "batch=auto" {
		return nil
	}
	return []Finding{warn("uplink", "GN133 take kind = \"auto\"", "plugstack.conf says %s, and from a %s the node itself is not reached: srun in a script does not reach the node's own slurmd", who, s.Uplinks.Kind)}
}
