package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/overlay"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// hostsIn and resolvIn are the files that the SPANK plugin puts over /etc/hosts and
// /etc/resolv.conf of the job's tasks.
func hostsIn(dir string) string  { return filepath.Join(dir, "hosts") }
func resolvIn(dir string) string { return filepath.Join(dir, "resolv.conf") }

// writeNames writes what the job's tasks resolve names by, where the node's own
// files do not do.
func (l *open) writeNames(u *table.Uplink, network *overlay.Network) error {
	c := l.node.Config.Uplink
	if u != nil {
		if err := l.writeResolver(c); err != nil {
			return err
		}
	}
	if network == nil && (u == nil || !c.OwnName) {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the node's name: %w", err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if errors.Is(err, fs.ErrNotExist) {
		l.node.notice(l.world.Job, "the node has no /etc/hosts that the job's could cover: names mean inside what they mean on the node")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the node's hosts: %w", err)
	}
	if network == nil {
		return writeName(hostsIn(l.world.Dir), hostsWith(string(hosts), []host{hostOf(u.Address, "", name)}))
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	return writeName(hostsIn(l.world.Dir), hostsWith(string(hosts), hostsOf(network, name, searchIn(string(resolv)))))
}

// writeResolver writes whom the job's tasks ask for names, where they cannot ask whom the node asks.
func (l *open) writeResolver(c config.Uplink) error {
	if len(c.Nameservers) > 0 {
		return writeName(resolvIn(l.world.Dir), resolvConf(c))
	}
	node, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	if text := uplink.Upstream(string(node), l.node.Run); text != "" {
		return writeName(resolvIn(l.world.Dir), text)
	}
	return nil
}

// writeName writes a file that every user may read.
func writeName(path, text string) error {
	// The umask is slurmd's.
	err := os.WriteFile(path, []byte(text), 0o644)
	if err == nil {
		err = os.Chmod(path, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func resolvConf(c config.Uplink) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# gresnet.toml, [uplink]")
	if len(c.Search) > 0 {
		fmt.Fprintln(&b, "search", strings.Join(c.Search, " "))
	}
	for _, a := range c.Nameservers {
		fmt.Fprintln(&b, "nameserver", a)
	}
	return b.String()
}

// searchIn is the domain in which a resolv.conf has names looked for first, if any: the
// last line of either kind counts (resolv.conf(5)).
func searchIn(resolv string) (domain string) {
	for line := range strings.Lines(resolv) {
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "search" || words[0] == "domain") {
			domain = strings.Trim(words[1], ".")
		}
	}
	return domain
}

// host is one whose names mean an address of the job's inside.
type host struct {
	address netip.Addr
	names   []string
	search  []string // names that it has by the resolver's search
}

// hostOf is a host with some names, each with and without its domain.
func hostOf(a netip.Addr, search string, names ...string) host {
	h := host{address: a}
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

// hostsOf returns the nodes of a job. This node is in the list by its own host name, too.
func hostsOf(n *overlay.Network, own, search string) (all []host) {
	for i, node := range n.Nodes {
		names := []string{node.Name, node.Hostname}
		if i == n.Own {
			names = append(names, own)
		}
		all = append(all, hostOf(node.Address, search, names...))
	}
	return all
}

// hostsWith is the node's hosts with the names of some meaning other addresses: a line
// that has one of them, whatever its address, gives these names away.
func hostsWith(node string, hosts []host) string {
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
		fmt.Fprintln(&own, h.address, strings.Join(h.sorted(), " "))
	}
	return own.String() + rest.String()
}

// sorted are a host's names, the canonical one first: one with a domain, if the node's hosts
// or Slurm have any (hosts(5)).
func (h host) sorted() []string {
	slices.SortStableFunc(h.names, func(a, b string) int { return strings.Count(b, ".") - strings.Count(a, ".") })
	more := slices.DeleteFunc(slices.Clone(h.search), func(name string) bool { return slices.Contains(h.names, name) })
	return append(h.names, more...)
}
