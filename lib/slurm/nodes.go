package slurm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Host is what slurm.conf says of a node besides its name; empty where it does not.
type Host struct {
	Addr     string // NodeAddr: a name or an address
	Hostname string // NodeHostname
	Port     int    // of its slurmd
}

// MaxNodes is how many nodes a cluster can have (Slurm src/common/slurm_protocol_defs.h, MAX_SLURM_NODES).
const MaxNodes = 64 * 1024

// Hosts returns the nodes of some names, as far as the file has them.
func (c Conf) Hosts(names []string) (map[string]Host, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	hosts := map[string]Host{}
	err := c.nodes(func(n nodeLine) error {
		if !slices.ContainsFunc(n.names, func(name string) bool { return wanted[name] }) {
			return nil
		}
		host, err := n.hosts()
		for i, name := range n.names {
			if err == nil && wanted[name] {
				hosts[name], err = host(i)
			}
		}
		return err
	})
	return hosts, err
}

// NodeNames returns the names of all nodes of the file.
func (c Conf) NodeNames() (map[string]bool, error) {
	names := map[string]bool{}
	err := c.nodes(func(n nodeLine) error {
		for _, name := range n.names {
			names[name] = true
		}
		return nil
	})
	return names, err
}

// NodeAddrs returns the IPv4 addresses of the cluster's nodes, from and to, as far as lines have them in NodeAddr.
func (c Conf) NodeAddrs() (all [][2]netip.Addr, err error) {
	for _, l := range c.All("nodename") {
		list, err := ParseHostlist(l.Get("nodeaddr"))
		for _, p := range list {
			if err == nil && !l.isDefault() {
				all, err = p.addrs(all)
			}
		}
		if err != nil {
			return nil, l.fault(err)
		}
	}
	return all, nil
}

// addrs adds the addresses of an element of a hostlist. A cluster has thousands, which are not spelled out if the
// element says them as a range.
func (p hostPattern) addrs(all [][2]netip.Addr) ([][2]netip.Addr, error) {
	if len(p) == 2 && p[0].numbers == nil {
		var is [][2]netip.Addr
		for _, r := range p[1].numbers {
			first, _ := netip.ParseAddr(p[0].literal + r.format(r.low))
			last, _ := netip.ParseAddr(p[0].literal + r.format(r.high))
			if first.Is4() && last.Is4() && number(last)-number(first) == r.high-r.low { // unlike 10.0.0.1[5-12]
				is = append(is, [2]netip.Addr{first, last})
			}
		}
		if len(is) == len(p[1].numbers) {
			return append(all, is...), nil
		}
	}
	names, err := Hostlist{p}.Names(MaxNodes)
	for _, name := range names {
		if a, err := netip.ParseAddr(name); err == nil && a.Is4() {
			all = append(all, [2]netip.Addr{a, a})
		}
	}
	return all, err
}

// number returns an IPv4 address as a number.
func number(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(binary.BigEndian.Uint32(b[:]))
}

// Node returns the node of a name, or the one that runs on the host of that name, as slurmd finds its own
// by NodeHostname (Slurm src/common/read_config.c:slurm_conf_get_nodename). If the file has neither, it
// is the name.
func (c Conf) Node(name string) (string, error) {
	hosts, err := c.Hosts([]string{name})
	if _, is := hosts[name]; is || err != nil {
		return name, err
	}
	short, _, _ := strings.Cut(name, ".")
	for _, host := range []string{name, short} {
		if host == "" {
			continue
		}
		if node, err := c.nodeOn(host); node != "" || err != nil {
			return cmp.Or(node, name), err
		}
	}
	return name, nil
}

// nodeOn returns the first node whose NodeHostname is a host's, or its own name.
func (c Conf) nodeOn(host string) (node string, err error) {
	err = c.nodes(func(n nodeLine) error {
		hostnames, err := n.list("nodehostname")
		if len(hostnames) == 0 {
			hostnames = n.names
		}
		for i, name := range n.names {
			if node == "" && at(hostnames, i) == host {
				node = name
			}
		}
		return err
	})
	return node, err
}

// NodeAddr is the key of a node's own address.
const NodeAddr = "NodeAddr"

// Needs returns the addresses, or names of them, that a node itself must have or reach: its own, and those
// of slurmctld. file is its slurm.conf; empty: one of the usual places. A node that the file does not
// have, as a dynamic one, has its name for an address.
func Needs(root fs.FS, file, node string) ([]Pair, error) {
	if file = Find(root, file); file == "" {
		return nil, fmt.Errorf("read slurm.conf: it is in none of %s", strings.Join(Places(), ", "))
	}
	conf, err := Read(root, file)
	if err != nil {
		return nil, err
	}
	name, err := conf.Node(node)
	if err != nil {
		return nil, err
	}
	hosts, err := conf.Hosts([]string{name})
	if err != nil || name == "" {
		return conf.ControllerAddrs(), err
	}
	own := Pair{Key: NodeAddr, Value: cmp.Or(hosts[name].Addr, hosts[name].Hostname, name)}
	return append([]Pair{own}, conf.ControllerAddrs()...), nil
}

// nodeLine is a line of slurm.conf that is about nodes.
type nodeLine struct {
	Line
	names []string
	port  string // that is said here, or by a line of defaults before
}

// nodes goes through the lines about nodes.
func (c Conf) nodes(each func(nodeLine) error) error {
	port := ""
	for _, l := range c.All("nodename") {
		if l.isDefault() {
			port = cmp.Or(l.Get("port"), port)
			continue
		}
		n := nodeLine{Line: l, port: cmp.Or(l.Get("port"), port)}
		var err error
		if n.names, err = NodesIn(l.Keys[0].Value); err == nil && len(n.names) == 0 {
			err = errors.New("it names no node")
		}
		if err == nil {
			err = l.alone()
		}
		if err == nil {
			err = each(n)
		}
		if err != nil {
			return l.fault(err)
		}
	}
	return nil
}

// isDefault tells whether a line of nodes says what holds for the lines after it.
func (l Line) isDefault() bool { return strings.EqualFold(l.Keys[0].Value, "default") }

// hosts reads the line's lists, as long as it has nodes, once. The function that it returns says what the line says
// of one of them.
func (n nodeLine) hosts() (func(i int) (Host, error), error) {
	addrs, err := n.list("nodeaddr")
	if err != nil {
		return nil, err
	}
	hostnames, err := n.list("nodehostname")
	if err != nil {
		return nil, err
	}
	ports, err := n.ports()
	return func(i int) (Host, error) {
		port, err := n.portOf(ports, i)
		return Host{Addr: at(addrs, i), Hostname: at(hostnames, i), Port: port}, err
	}, err
}

// list returns the line's values, one for each of its nodes or one for all.
func (n nodeLine) list(key string) ([]string, error) {
	list, err := NodesIn(n.Get(key))
	if err == nil && len(list) > 1 && len(list) != len(n.names) {
		err = fmt.Errorf("%s counts %d and NodeName %d", key, len(list), len(n.names))
	}
	return list, err
}

// ports returns the line's ports, one for each of its nodes or one for all; none if it does not say it. Slurm takes
// ports with and without brackets (src/common/node_conf.c:expand_nodeline_info).
func (n nodeLine) ports() ([]string, error) {
	text := n.port
	if text != "" && text[0] != '[' && strings.ContainsAny(text, ",-") {
		text = "[" + text + "]"
	}
	return NodesIn(text)
}

// portOf returns the port of one of the nodes, 0 if the line does not say it.
func (n nodeLine) portOf(list []string, i int) (int, error) {
	if n.port == "" {
		return 0, nil
	}
	port, err := strconv.ParseUint(at(list, i), 10, 16)
	if err != nil || port == 0 || len(list) > 1 && len(list) != len(n.names) {
		return 0, fmt.Errorf("%q are no ports of %d nodes", n.port, len(n.names))
	}
	return int(port), nil
}

// NodesIn returns the names of a hostlist, which has no more of them than a cluster has nodes.
func NodesIn(list string) ([]string, error) {
	l, err := ParseHostlist(list)
	if err != nil {
		return nil, err
	}
	return l.Names(MaxNodes)
}

// at returns the word of a node: several nodes may have one address, with a port for each.
func at(list []string, i int) string {
	switch {
	case len(list) == 1:
		return list[0]
	case i < len(list):
		return list[i]
	}
	return ""
}
