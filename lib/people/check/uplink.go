package check

import (
	"fmt"
	"io/fs"
	"strings"

	"gresnet/lib/network/jobnet"
	"gresnet/lib/words/config"
)

// uplinks holds [uplink] against the node.
func (s Site) uplinks() []Finding {
	const about = "uplink"
	if s.UplinksErr != nil {
		f := failed(about, s.UplinksErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		if s.Config.Uplink.Kind == config.UplinkAuto {
			f.Level, f.Text = Warning, "jobs have no way out of their own network: "+f.Text
		}
		return []Finding{f}
	}
	if s.Uplinks == nil {
		return nil
	}
	var all []Finding
	if jobs, room := s.mapped(), s.Uplinks.Room(); room < jobs {
		all = append(all, warn(about, "GN130 make uplink.addresses or uplink.share larger", "there are addresses for %d jobs, and HCAs for %d: the prolog of a job without one fails, and drains the node", room, jobs))
	} else {
		all = append(all, ok(about, "%s: addresses for %d jobs, of %s%s", s.Uplinks.Kind, room, s.Uplinks.Addresses, leads(s.Uplinks)))
	}
	all = append(all, s.firewall()...)
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

// firewall warns of what drops what jobs send: no table of ours can accept it for others.
func (s Site) firewall() (all []Finding) {
	if !s.Uplinks.Auto {
		return nil
	}
	for _, chain := range s.Drops {
		all = append(all, warn("uplink", fmt.Sprintf("GN132 accept there what comes from %s, and established connections to it", s.Uplinks.Addresses),
			"the chain %s drops what is forwarded, unless a rule of it says otherwise: jobs may reach only the node", chain))
	}
	return all
}

// Input is a chain of a firewall that drops what its node must get for jobs. Accept is the command that
// has the chain accept it, and Without what does not work otherwise.
type Input struct{ Chain, What, Accept, Without string }

// inputs warns of what drops packets for the node itself.
func (s Site) inputs() (all []Finding) {
	all = s.flushes()
	if s.InputsErr != nil {
		return append(all, warn("firewall", "GN391 look with nft list ruleset, and iptables-legacy -S", "what it drops of jobs' packets is not known: %s", s.InputsErr))
	}
	for _, i := range s.Inputs {
		all = append(all, warn("firewall", fmt.Sprintf("GN392 accept that in the firewall's own configuration; to try it: %s", i.Accept),
			"the chain %s drops %s, unless a rule of it says otherwise that cannot be read here: %s", i.Chain, i.What, i.Without))
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
	return []Finding{warn("firewall", "GN735 let its file and its ExecReload delete the site's own tables alone", "nftables.service deletes gresnet's tables when it is reloaded: running jobs then lose their way out, and others reach them")}
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
