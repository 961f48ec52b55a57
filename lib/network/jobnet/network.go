// Package jobnet decides which addresses, routes and names a job's own network has: between its nodes
// (Network), and by the node to others (Pool). It holds the site's configuration against what Slurm says of
// the job and what the node has. Each node of a job does so for itself: nodes exchange no message.
//
// There are two kinds of errors. A *gres.Refusal is about the job's nodes: this node is not at fault. Every
// other error is this node's.
package jobnet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/network/virtual"
	"gresnet/lib/slurm"
)

// Node is a node of the job.
type Node struct {
	Name    string     // Slurm's
	Address netip.Addr // NodeAddr, by which all of the job's programs know it
}

// Network is a job's network, as one of its nodes sees it.
type Network struct {
	Leader uint32 // the job whose id the network has, if that is another component
	Nodes  []Node
	Own    int // this node's place among them
	Link   virtual.Overlay

	Slurmds     []int           // the ports of slurmd on all of its nodes
	Slurmd      int             // the port of slurmd, if srun in the job calls slurmd on each of its nodes itself; else 0
	Srun        ports.Block     // where srun listens, if slurm.conf says so
	Controllers []netip.Addr    // of slurmctld, which calls srun
	Cluster     [][2]netip.Addr // of nodes, from and to: those of a new job call srun, too
	slurmUser   string          // as whom slurmctld runs
	component   int             // how many of the nodes, the first ones, are of the job's own component
}

// Address returns the job's own address, which is the node's.
func (n Network) Address() netip.Addr { return n.Nodes[n.Own].Address }

// SlurmUser returns the uid as which slurmctld runs, or root's.
func (n Network) SlurmUser() uint32 {
	u, err := user.Lookup(n.slurmUser)
	if err != nil {
		return 0
	}
	id, _ := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(id)
}

// World answers what NewNetwork asks about the nodes.
type World struct {
	Slurm func() (slurm.Conf, error)                                   // slurm.conf: where nodes are, and how srun calls slurmd
	Look  func(ctx context.Context, name string) ([]netip.Addr, error) // the resolver
	Way   func(to netip.Addr) (Way, error)                             // to another node
	Here  func(a netip.Addr) (virtual.Here, bool)                      // where this node has an address
}

// Way is the way to another node.
type Way struct {
	From  netip.Addr
	MTU   int
	Index int // of the interface
}

// NewNetwork returns the network of a job, or nil if Slurm does not say which nodes the job has, or the only
// one has no address.
func NewNetwork(ctx context.Context, c config.Overlay, j job.Job, w World) (*Network, error) {
	if j.Nodes == "" {
		return nil, nil
	}
	names, err := slurm.NodesIn(j.Nodes)
	if err != nil {
		return nil, refusal("%s", err)
	}
	n := &Network{Own: slices.Index(names, j.Node), Link: virtual.OverlayOf(j.ID)}
	if n.Own < 0 {
		return nil, refusal("the job's nodes %s do not have this node, %q", hint.Clip(j.Nodes), j.Node)
	}
	conf, err := w.Slurm()
	if err != nil {
		return nil, err
	}
	own := names
	if names, err = withOthers(own, j.Others, conf); err != nil {
		return nil, err
	}
	n.component = len(own)
	if len(names) > len(own) && j.Leader != j.ID {
		n.Leader, n.Link = j.Leader, virtual.OverlayOf(j.Leader)
	}
	for _, name := range names {
		n.Nodes = append(n.Nodes, Node{Name: name})
	}
	hosts, err := conf.Hosts(names)
	if err != nil {
		return nil, unread(err)
	}
	n.Link.Port, n.Slurmd, n.Slurmds = c.Port, called(conf, hosts, own), slurmds(conf, hosts)
	ctx, cancel := context.WithTimeout(ctx, poll.Resolver)
	defer cancel()
	if err := n.learn(ctx, conf, w); err != nil {
		return nil, unread(err)
	}
	found, err := n.fill(ctx, c, hosts, w)
	if !found || err != nil {
		return nil, err
	}
	n.Link.Name = cmp.Or(c.Interface, n.Link.Name)
	return n, nil
}

// withOthers returns the names of the nodes of a job's component and of the other ones. They are one
// network unless two have a node in common, where an address would mean two jobs: Slurm does not do that.
//
// The job's user may have written a list of the others. So it is not spelled out beyond what slurm.conf has, and names
// no host but its nodes.
func withOthers(own, lists []string, conf slurm.Conf) ([]string, error) {
	if len(lists) == 0 {
		return own, nil
	}
	known, err := conf.NodeNames()
	if err != nil {
		return nil, unread(err)
	}
	all := slices.Clone(own)
	for _, text := range lists {
		list, err := slurm.ParseHostlist(text)
		if err != nil {
			return nil, refusal("%s", err)
		}
		names, err := list.Names(len(known))
		if err != nil {
			return nil, refusal("another component of the job has more nodes than slurm.conf: %s", err)
		}
		for _, name := range names {
			if !known[name] {
				return nil, refusal("%s, where another component of the job is, is no node of slurm.conf", hint.Clip(name))
			}
		}
		if all = append(all, names...); len(all) > len(own)+len(known) {
			break // some are there twice
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
		return own, nil
	}
	return all, nil
}

// learn learns of slurm.conf how Slurm calls into the job.
func (n *Network) learn(ctx context.Context, conf slurm.Conf, w World) error {
	if b, is := block(conf.Last("srunportrange")); is {
		n.Srun = b
	}
	var names []string
	for _, p := range conf.ControllerAddrs() {
		names = append(names, p.Value)
	}
	found, _ := Find(ctx, names, w.Look) // without it slurmctld does not wake a step that waits
	for _, all := range found {
		for _, a := range all {
			if a.Is4() && !a.IsLoopback() {
				n.Controllers = append(n.Controllers, a)
			}
		}
	}
	n.slurmUser = cmp.Or(conf.Last("slurmuser"), "root")
	var err error
	n.Cluster, err = conf.NodeAddrs() // to ask the resolver for all of a cluster's names takes too long
	n.Cluster = slices.DeleteFunc(n.Cluster, func(a [2]netip.Addr) bool { return a[0].IsLoopback() })
	return err
}

// fill finds the nodes' addresses, what the node has of its own, and the way to the others. It tells
// whether the node has an address.
func (n *Network) fill(ctx context.Context, c config.Overlay, hosts map[string]slurm.Host, w World) (bool, error) {
	var names, under []string
	for _, node := range n.Nodes {
		h := hosts[node.Name]
		names = append(names, cmp.Or(h.Addr, h.Hostname, node.Name))
		under = append(under, c.Host(node.Name))
	}
	known, failed := Find(ctx, names, w.Look)
	at := known
	if c.Underlay != "" {
		var unknown []error
		at, unknown = Find(ctx, under, w.Look)
		if err := cmp.Or(unknown...); err != nil {
			return false, n.lost(at, err)
		}
	}
	if err := cmp.Or(failed...); err != nil {
		if err := n.lost(known, err); err != nil {
			return false, err
		}
	}
	way, err := n.way(at, w)
	if err != nil {
		return false, err
	}
	if !n.settle(known[n.Own], way, w) {
		return false, nil
	}
	for i := range n.Nodes {
		if i == n.Own {
			continue
		}
		if err := n.join(i, known[i], at[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// lost returns why another node has no address. This node may have none by its name: then it has the
// one by which it reaches others.
func (n *Network) lost(found [][]netip.Addr, why error) error {
	for i := range found {
		if i != n.Own && len(found[i]) == 0 {
			return refusal("node %s has no address: %s", n.Nodes[i].Name, why)
		}
	}
	return nil
}

// way returns the way to the first of the other nodes, or else to slurmctld.
func (n *Network) way(at [][]netip.Addr, w World) (Way, error) {
	for i, all := range at {
		if i == n.Own {
			continue
		}
		way, err := w.Way(all[0])
		if err != nil && i >= n.component {
			return Way{}, refusal("no way to %s, where another component of the job is: %s", n.Nodes[i].Name, err)
		}
		if err != nil && hint.Of(err) != "" {
			return Way{}, fmt.Errorf("overlay: reach %s: %w", n.Nodes[i].Name, err)
		}
		if err != nil {
			return Way{}, hint.With(fmt.Errorf("overlay: reach %s: %w", n.Nodes[i].Name, err), `GN220 see ip route, and NodeAddr in slurm.conf; or set kind = "none" in [overlay]`)
		}
		return way, nil
	}
	for _, a := range append(slices.Clone(n.Controllers), anywhere) {
		if way, err := w.Way(a); err == nil && !way.From.IsLoopback() {
			return way, nil
		}
	}
	return Way{}, nil
}

// anywhere is nobody's (RFC 5737): the way there is the default route.
var anywhere = netip.AddrFrom4([4]byte{192, 0, 2, 0})

// settle gives the job's interface what the node's has: the one with NodeAddr, or by which the node
// reaches others. It tells whether there is one. NodeAddr may be a name that means the loopback here
// and an address elsewhere, as Debian has it in /etc/hosts.
func (n *Network) settle(own []netip.Addr, way Way, w World) bool {
	o := &n.Link
	for _, a := range append(slices.Clone(own), way.From) {
		here, is := w.Here(a)
		if !is || a.IsLoopback() {
			continue
		}
		n.Nodes[n.Own].Address = a
		o.Address, o.All, o.Name, o.Place, o.MTU = here.Address, here.All, here.Name, here.Index, here.MTU
		if o.Node, o.Path = way.From, way.MTU; !way.From.IsValid() {
			o.Node, o.Path = a, here.MTU
		}
		return true
	}
	return false
}

// join adds a node that programs know by one of some addresses, and that is at one of others.
func (n *Network) join(i int, known, at []netip.Addr) error {
	p := virtual.Peer{}
	for _, one := range []struct {
		of  netip.Addr
		all []netip.Addr
		to  *netip.Addr
	}{{n.Address(), known, &p.Address}, {n.Link.Node, at, &p.Node}} {
		same := slices.IndexFunc(one.all, func(a netip.Addr) bool { return a.Is4() == one.of.Is4() })
		switch {
		case same < 0:
			return refusal("node %s is at %s, and this node reaches others from %s", n.Nodes[i].Name, one.all[0], one.of)
		case one.all[same] == one.of || one.all[same].IsLoopback():
			return refusal("node %s is at %s, which is this node's", n.Nodes[i].Name, one.all[same])
		}
		*one.to = one.all[same]
	}
	n.Nodes[i].Address = p.Address
	n.Link.Peers = append(n.Link.Peers, p)
	return nil
}

// looksAtOnce bounds the requests to a DNS server at one time, so that it drops none.
const looksAtOnce = 32

// Find returns the addresses of names, or why a name has none. Some names may be addresses already. It asks
// the resolver for the others, all at once.
func Find(ctx context.Context, names []string, look func(context.Context, string) ([]netip.Addr, error)) (found [][]netip.Addr, failed []error) {
	found, failed = make([][]netip.Addr, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	turn := make(chan struct{}, looksAtOnce)
	for i, name := range names {
		if a, err := netip.ParseAddr(name); err == nil {
			found[i] = []netip.Addr{a.Unmap()}
			continue
		}
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if found[i], failed[i] = look(ctx, name); failed[i] == nil && len(found[i]) == 0 {
				failed[i] = fmt.Errorf("nobody knows %s", name)
			}
		})
	}
	all.Wait()
	return found, failed
}

func refusal(format string, a ...any) *gres.Refusal {
	return &gres.Refusal{Ask: "overlay", Why: fmt.Sprintf(format, a...), Do: "GN221 see NodeAddr in slurm.conf, and whether the node's resolver knows the job's nodes"}
}

// Resolve asks the node's resolver. It returns IPv4 addresses first.
func Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return found, err
}

// ReadSlurm returns the first slurm.conf that is there, or an empty one, in the order in which Slurm
// looks for it: the path that slurmd says, /etc/slurm, and where slurmd keeps the file that slurmctld sends it
// (Slurm src/common/read_config.c).
func ReadSlurm(said string) (slurm.Conf, error) {
	places := slurm.Places()
	if said != "" {
		places = append([]string{said}, places...)
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

// SlurmdPort returns the port of slurmd, unless a node's line has another one.
func SlurmdPort(c slurm.Conf) int { return setting(c, "slurmdport", slurmdPort) }

// slurmds returns all ports that slurmd has on some nodes, and that of nodes whose line has none.
func slurmds(c slurm.Conf, hosts map[string]slurm.Host) []int {
	all := []int{SlurmdPort(c)}
	for _, h := range hosts {
		if h.Port > 0 {
			all = append(all, h.Port)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// called returns slurmd's port if srun calls slurmd on each of some nodes itself, and else 0. With
// more nodes than TreeWidth, or by switches, it has one slurmd call the next, which then calls srun back
// at an address that only the first one knows (Slurm src/common/slurm_route.c). Nodes that have several
// ports are not called either: the job's network leads one port.
func called(c slurm.Conf, hosts map[string]slurm.Host, nodes []string) int {
	bySwitches := strings.EqualFold(c.Last("routeplugin"), "route/topology") || strings.Contains(strings.ToLower(c.Last("topologyparam")), "routetree")
	if len(nodes) > 1 && (bySwitches || len(nodes) > setting(c, "treewidth", treeWidth)) {
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

// setting returns the value of a key, or what holds without it.
func setting(c slurm.Conf, key string, without int) int {
	if n, err := strconv.Atoi(c.Last(key)); err == nil && n > 0 {
		return n
	}
	return without
}
