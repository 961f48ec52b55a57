package check

import (
	"io/fs"
	"net/netip"
	"strings"

	"gresnet/lib/config"
)

// uplinks holds [uplink] against the node.
func (s Site) uplinks() []Finding {
	const about = "uplink"
	if s.UplinksErr != nil {
		f := failed(about, s.UplinksErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		return []Finding{f}
	}
	if s.Uplinks == nil {
		return nil
	}
	var all []Finding
	if jobs, room := s.mapped(), s.Uplinks.Room(); room < jobs {
		all = append(all, warn(about, "make uplink.addresses or uplink.share larger", "there are addresses for %d jobs, and HCAs for %d: the prolog of a job without one fails, and drains the node", room, jobs))
	} else {
		all = append(all, ok(about, "%s: addresses for %d jobs, of %s", s.Uplinks.Kind, room, s.Uplinks.Addresses))
	}
	if stub := s.stub(); stub != "" && len(s.Config.Uplink.Nameservers) == 0 {
		all = append(all, warn(about, "name the network's in uplink.nameservers", "/etc/resolv.conf has nameserver %s, which is the job's own loopback inside: names are not resolved there", stub))
	}
	return all
}

// mapped is how many HCAs jobs can have, and so how many jobs can have any at once.
func (s Site) mapped() (n int) {
	for _, h := range s.Stock.HCAs {
		if h.Gres != "" {
			n++
		}
	}
	return n
}

// stub is a nameserver of the node's on its loopback, such as systemd-resolved's.
func (s Site) stub() string {
	text, err := fs.ReadFile(s.Root, "etc/resolv.conf")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil && a.IsLoopback() {
			return words[1]
		}
	}
	return ""
}

// neighbours warns of scripts that are inside, and cannot reach what is on their
// own node: the kernel keeps a macvlan and an ipvlan from their parent's addresses.
func (s Site) neighbours(who string) []Finding {
	if s.Uplinks == nil || s.Uplinks.Kind == config.UplinkVeth || who == "steps" {
		return nil
	}
	return []Finding{warn("uplink", "take kind = \"veth\"", "plugstack.conf says %s, and from a %s the node itself is not reached: srun in a script does not reach the node's own slurmd", who, s.Uplinks.Kind)}
}
