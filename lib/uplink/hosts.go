package uplink

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Names are the names that mean an address in a job.
type Names struct {
	Address netip.Addr
	names   []string
	search  []string // those in the domain in which the resolver looks for names first
}

// NamesOf returns the names of an address: each with and without its domain, and in the resolver's
// search domain, if there is one.
func NamesOf(a netip.Addr, search string, names ...string) Names {
	h := Names{Address: a}
	add := func(list *[]string, name string) {
		if name != "" && !slices.Contains(h.names, name) && !slices.Contains(h.search, name) {
			*list = append(*list, name)
		}
	}
	for _, name := range names {
		add(&h.names, name)
		short, _, _ := strings.Cut(name, ".")
		add(&h.names, short)
		if search != "" && short != "" {
			add(&h.search, short+"."+search)
		}
	}
	return h
}

// HostsFile returns the job's /etc/hosts: that of the node, with other addresses for some names. It
// removes these names from the node's lines, whatever their address, and adds to hosts under which
// other names the node knows them.
func HostsFile(node string, hosts []Names) string {
	whose := map[string]int{}
	for i, h := range hosts {
		for _, name := range append(h.names, h.search...) {
			if _, taken := whose[name]; !taken {
				whose[name] = i
			}
		}
	}
	var rest strings.Builder
	for line := range strings.Lines(node) {
		entry, _, _ := strings.Cut(line, "#")
		words := strings.Fields(entry)
		known := -1
		if len(words) > 1 {
			known = slices.IndexFunc(words[1:], func(w string) bool { _, is := whose[w]; return is })
		}
		if known < 0 {
			rest.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		var others []string
		for _, w := range words[1:] {
			short, _, _ := strings.Cut(w, ".")
			i, is := whose[w]
			if !is && short != "localhost" {
				i, is = whose[short]
			}
			if !is {
				others = append(others, w)
				continue
			}
			if !slices.Contains(hosts[i].names, w) {
				hosts[i].names = append(hosts[i].names, w)
			}
		}
		if len(others) > 0 {
			fmt.Fprintln(&rest, words[0], strings.Join(others, " "))
		}
	}
	var own strings.Builder
	for _, h := range hosts {
		fmt.Fprintln(&own, h.Address, strings.Join(h.All(), " "))
	}
	return own.String() + rest.String()
}

// All returns the names. The canonical one comes first: one with a domain, if the node's
// /etc/hosts or Slurm have any (hosts(5)).
func (h Names) All() []string {
	slices.SortStableFunc(h.names, func(a, b string) int { return strings.Count(b, ".") - strings.Count(a, ".") })
	more := slices.DeleteFunc(slices.Clone(h.search), func(name string) bool { return slices.Contains(h.names, name) })
	return append(h.names, more...)
}
