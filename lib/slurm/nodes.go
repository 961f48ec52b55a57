package slurm

// Host is what slurm.conf says of a node besides its name; empty where it does not.
type Host struct {
	Addr     string // NodeAddr: a name or an address
	Hostname string // NodeHostname
}

// maxNodes bounds what one line of slurm.conf can be about: Slurm's own bound of a
// node table (Slurm src/common/read_config.h, MAX_SLURM_NODES).
const maxNodes = 64 * 1024

// Hosts are the nodes of some names, as far as the file has them.
func (c Conf) Hosts(names []string) map[string]Host {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	hosts := map[string]Host{}
	for _, l := range c.All("nodename") {
		addrs, hostnames := spellOut(l.Get("nodeaddr")), spellOut(l.Get("nodehostname"))
		for i, name := range spellOut(l.Keys[0].Value) {
			if wanted[name] {
				hosts[name] = Host{Addr: at(addrs, i), Hostname: at(hostnames, i)}
			}
		}
	}
	return hosts
}

// spellOut is nothing for what is no hostlist: Slurm does not start with that.
func spellOut(list string) []string {
	if list == "" {
		return nil
	}
	l, err := ParseHostlist(list)
	if err != nil {
		return nil
	}
	names, _ := l.Names(maxNodes)
	return names
}

// at is the word of a node: several nodes may have one address, with a port for each.
func at(list []string, i int) string {
	switch {
	case len(list) == 1:
		return list[0]
	case i < len(list):
		return list[i]
	}
	return ""
}
