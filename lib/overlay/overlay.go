// Package overlay computes a job's network between its nodes. Each node of the job does so for
// itself, from what Slurm says about the job. The nodes exchange no message.
//
// There are two kinds of errors. A *gres.Refusal is about the job's nodes: this node is not at
// fault. Every other error is this node's.
package overlay

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/job"
	"gresnet/lib/slurm"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
)

// Node is a node of the job.
type Node struct {
	Name     string     // Slurm's
	Hostname string     // its own name, if slurm.conf says that it has another
	Address  netip.Addr // in the job
}

// Network is a job's network, as one of its nodes sees it.
type Network struct {
	Nodes []Node
	Own   int // this node's place among them
	Link  virtual.Overlay

	Slurmd int // the port of slurmd, if srun in the job calls slurmd on each of its nodes itself; else 0
}

// Address is the job's own address.
func (n Network) Address() netip.Addr { return n.Nodes[n.Own].Address }

// Names returns the names of the job's nodes. This node has its own host name, too. search is the
// domain in which names are looked for first.
func (n *Network) Names(own, search string) (all []uplink.Names) {
	for i, node := range n.Nodes {
		names := []string{node.Name, node.Hostname}
		if i == n.Own {
			names = append(names, own)
		}
		all = append(all, uplink.NamesOf(node.Address, search, names...))
	}
	return all
}

// World answers what New asks about other nodes.
type World struct {
	Slurm func() (slurm.Conf, error)                                   // slurm.conf: where nodes are, and how srun calls slurmd
	Look  func(ctx context.Context, name string) ([]netip.Addr, error) // the resolver
	Way   func(to netip.Addr) (from netip.Addr, mtu int, err error)    // and the MTU of an overlay by that way
}

// lookTime bounds the resolver's time for all nodes of a job.
const lookTime = 10 * time.Second

// New returns the network of a job, or nil if Slurm does not say which nodes the job has.
func New(ctx context.Context, c config.Overlay, j job.Job, w World) (*Network, error) {
	if j.Nodes == "" {
		return nil, nil
	}
	list, err := slurm.ParseHostlist(j.Nodes)
	if err != nil {
		return nil, refusal("%s", err)
	}
	names, err := list.Names(c.Nodes())
	if err != nil {
		r := refusal("the job has more nodes than the %d that overlay.network %s has addresses for", c.Nodes(), c.Network)
		r.Do = "GN311 ask for fewer nodes, or have the site make overlay.network larger"
		return nil, r
	}
	n := &Network{Own: slices.Index(names, j.Node), Link: virtual.OverlayOf(j.ID)}
	if n.Own < 0 {
		return nil, refusal("the job's nodes %s do not have this node, %q", hint.Clip(j.Nodes), j.Node)
	}
	conf, hosts, err := w.nodes(names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		n.Nodes = append(n.Nodes, Node{Name: name, Hostname: hosts[name].Hostname, Address: addressOf(c, i)})
	}
	n.Link.Name, n.Link.Port = c.Interface, c.Port
	n.Link.Address = netip.PrefixFrom(n.Address(), c.Network.Bits())
	n.Slurmd = called(conf, hosts, names)
	return n, n.fill(ctx, c, hosts, w)
}

// nodes returns slurm.conf, and what it says of the job's nodes.
func (w World) nodes(names []string) (slurm.Conf, map[string]slurm.Host, error) {
	conf, err := w.Slurm()
	if err != nil {
		return nil, nil, err
	}
	hosts, err := conf.Hosts(names)
	if err != nil {
		return nil, nil, unread(err)
	}
	return conf, hosts, nil
}

// addressOf returns the address that a node has in the job, by its place.
func addressOf(c config.Overlay, place int) netip.Addr {
	first := c.Network.Addr().As4()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(first[:])+uint32(place)+1)
	return netip.AddrFrom4(a)
}

// fill finds the other nodes' addresses, and the way to them.
func (n *Network) fill(ctx context.Context, c config.Overlay, hosts map[string]slurm.Host, w World) error {
	if len(n.Nodes) == 1 {
		n.Link.Node, n.Link.MTU = netip.AddrFrom4([4]byte{127, 0, 0, 1}), virtual.AloneMTU
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := n.find(ctx, c, hosts, w)
	if err != nil {
		return err
	}
	for i, at := range found {
		if i == n.Own {
			continue
		}
		if err := n.join(at, i, w); err != nil {
			return err
		}
	}
	return nil
}

// join adds a node that is at one of some addresses.
func (n *Network) join(at []netip.Addr, i int, w World) error {
	if !n.Link.Node.IsValid() {
		from, mtu, err := w.Way(at[0])
		if err != nil && hint.Of(err) != "" {
			return fmt.Errorf("overlay: reach %s: %w", n.Nodes[i].Name, err)
		}
		if err != nil {
			return hint.With(fmt.Errorf("overlay: reach %s: %w", n.Nodes[i].Name, err), `GN220 see ip route, and NodeAddr in slurm.conf; or set kind = "none" in [overlay]`)
		}
		n.Link.Node, n.Link.MTU = from, mtu
	}
	same := slices.IndexFunc(at, func(a netip.Addr) bool { return a.Is4() == n.Link.Node.Is4() })
	switch {
	case same < 0:
		return refusal("node %s is at %s, and this node reaches others from %s", n.Nodes[i].Name, at[0], n.Link.Node)
	case at[same] == n.Link.Node || at[same].IsLoopback():
		return refusal("node %s is at %s, which is this node's", n.Nodes[i].Name, at[same])
	}
	n.Link.Peers = append(n.Link.Peers, virtual.Peer{Address: n.Nodes[i].Address, Node: at[same]})
	return nil
}

// looksAtOnce bounds the requests to a DNS server at one time, so that it drops none.
const looksAtOnce = 32

// find returns the addresses of all nodes but this one. It asks the resolver for those that are
// names.
func (n *Network) find(ctx context.Context, c config.Overlay, hosts map[string]slurm.Host, w World) ([][]netip.Addr, error) {
	found, failed := make([][]netip.Addr, len(n.Nodes)), make([]error, len(n.Nodes))
	var all sync.WaitGroup
	turn := make(chan struct{}, looksAtOnce)
	for i, node := range n.Nodes {
		name := cmp.Or(c.Host(node.Name), hosts[node.Name].Addr, node.Hostname, node.Name)
		if a, err := netip.ParseAddr(name); err == nil {
			found[i] = []netip.Addr{a.Unmap()}
			continue
		}
		if i == n.Own {
			continue
		}
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if found[i], failed[i] = w.Look(ctx, name); failed[i] != nil {
				failed[i] = refusal("node %s has no address: %s", node.Name, failed[i])
			}
		})
	}
	all.Wait()
	return found, cmp.Or(failed...)
}

func refusal(format string, a ...any) *gres.Refusal {
	return &gres.Refusal{Ask: "overlay", Why: fmt.Sprintf(format, a...), Do: "GN221 see NodeAddr in slurm.conf, and whether the node's resolver knows the job's nodes"}
}

// Look asks the node's resolver. It returns IPv4 addresses first.
func Look(ctx context.Context, name string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return found, err
}

// CheckOverlap returns an error if the overlay's network overlaps with that of uplinks or one of the
// node's.
func CheckOverlap(c config.Config, n uplink.Host) error {
	all := config.NetworkRange(c.Overlay.Network)
	const do = "GN222 take another overlay.network, the same on all nodes"
	if c.Uplink.On() && c.Uplink.Addresses.Overlaps(c.Overlay.Network) {
		return hint.With(fmt.Errorf("overlay: its network %s overlaps with uplink.addresses %s", c.Overlay.Network, c.Uplink.Addresses), do)
	}
	for _, i := range n.Interfaces {
		for _, network := range n.Networks[i.Index] {
			if !uplink.IsHostEnd(i) && all.Overlaps(network.Masked()) {
				return hint.With(fmt.Errorf("overlay: its network %s overlaps with %s, the network of %s", c.Overlay.Network, network.Masked(), i.Name), do)
			}
		}
	}
	return nil
}

// ReadSlurm returns the first slurm.conf that is there, or an empty one, in the order in which Slurm
// looks for it: the path that slurmd says, and where slurmd keeps the file that slurmctld sends it (Slurm
// src/common/read_config.c).
func ReadSlurm(j job.Job) (slurm.Conf, error) {
	places := []string{"/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf"}
	if j.Conf != "" {
		places = append([]string{j.Conf}, places...)
	}
	for _, place := range places {
		if _, err := os.Stat(place); err != nil {
			continue
		}
		conf, err := slurm.Read(os.DirFS("/"), place)
		if err != nil {
			return nil, unread(err)
		}
		return conf, nil
	}
	return nil, nil
}

func unread(err error) error {
	return hint.With(fmt.Errorf("overlay: %w", err), "GN403 correct the line: Slurm does not read it either")
}

// What holds if slurm.conf does not say it. The width was 50 before Slurm 23.11.
const (
	slurmdPort = 6818
	treeWidth  = 16
)

// SlurmdPort is the port of slurmd, unless a node's line has another one.
func SlurmdPort(c slurm.Conf) int { return number(c, "slurmdport", slurmdPort) }

// called returns slurmd's port if srun calls slurmd on each of some nodes itself, and else 0. With
// more nodes than TreeWidth, or by switches, it has one slurmd call the next, which then calls srun back
// at an address that only the first one knows (Slurm src/common/slurm_route.c). Nodes that have several
// ports are not called either: the job's network leads one port.
func called(c slurm.Conf, hosts map[string]slurm.Host, nodes []string) int {
	bySwitches := strings.EqualFold(c.Last("routeplugin"), "route/topology") || strings.Contains(strings.ToLower(c.Last("topologyparam")), "routetree")
	if len(nodes) > 1 && (bySwitches || len(nodes) > number(c, "treewidth", treeWidth)) {
		return 0
	}
	all := SlurmdPort(c)
	port := cmp.Or(hosts[nodes[0]].Port, all)
	for _, node := range nodes {
		if cmp.Or(hosts[node].Port, all) != port {
			return 0
		}
	}
	return port
}

// number returns the value of a key, or what holds without it.
func number(c slurm.Conf, key string, without int) int {
	if n, err := strconv.Atoi(c.Last(key)); err == nil && n > 0 {
		return n
	}
	return without
}
