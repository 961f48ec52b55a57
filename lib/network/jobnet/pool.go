package jobnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
)

// Host has the node's interfaces, addresses and routes.
type Host struct {
	Interfaces []link.Interface
	Networks   map[int][]netip.Prefix    // by index of interface
	Ways       []link.Way                // see ReadWays
	Moves      func(link.Interface) bool // whether a job can get the interface; nil: no job can
	Ephemeral  ports.Block               // of the node's programs
	Kept       []ports.Block             // ports of its services
}

// isHostEnd tells the node's end of a job's uplink from an interface of the node's own.
func isHostEnd(i link.Interface) bool { return i.ID.Kind == "veth" && i.Index&virtual.UplinkBit != 0 }

// HasInterface tells whether an interface is an HCA's, by the device below it. HCAs in software
// have no such device; the interface's name decides.
func HasInterface(h node.HCA, i link.Interface) bool {
	switch {
	case h.ID.Aux != "":
		return strings.HasSuffix(i.ID.Parent, "/"+h.ID.Aux)
	case h.PCI() != "":
		return i.ID.Parent == "pci/"+h.PCI()
	}
	return slices.ContainsFunc(h.Ports, func(p node.Port) bool { return p.Interface == i.Name })
}

// ReadHost reads the host from a connection to the node's namespace.
func ReadHost(c *link.Conn) (n Host, err error) {
	if n.Interfaces, err = c.List(); err != nil {
		return Host{}, err
	}
	n.Networks, err = c.Networks()
	return n, err
}

// ReadWays reads which routes the host has, as far as automatic uplinks have to do with them.
func (n *Host) ReadWays(c *link.Conn) (err error) {
	n.Ways, err = c.Ways(autoNetwork)
	return err
}

// blockSize is how many ports each job has.
const blockSize = 1 << 10

// Block returns the block of ports of the job that has an address: that of the first address but the gateway's begins
// with the first port.
func (p Pool) Block(a netip.Addr) (ports.Block, bool) {
	at := int(number(a)-number(p.Addresses.First)) - 1
	if !p.Auto || at < 0 {
		return ports.Block{}, false
	}
	first := ports.First + at*blockSize
	return ports.Block{First: first, Last: first + blockSize - 1}, first+blockSize <= 1<<16
}

// Pool has the addresses that the node's jobs can have, and what their uplinks have in common.
type Pool struct {
	Kind      string
	Name      string // of the interface in the job
	Parent    string
	Addresses config.Range // this node's
	Bits      int          // the length of the network that the job has on its interface
	Gateway   netip.Addr   // of the routes; invalid: there are no routes
	Routes    []netip.Prefix
	Metric    int // of the routes

	Auto      bool             // a veth for which gresnet makes the node forward, not a macvlan
	Leads     []link.Interface // by which such a job reaches others
	Ways      []ports.Uplink   // those that have an address of IPv4
	All       []netip.Addr     // the node's addresses
	Ephemeral ports.Block      // see Host
	MTU       int              // of the shortest of the ways

	// Source is the node's address towards jobs, if a job does not have it itself.
	Source netip.Addr

	own []netip.Addr // addresses that jobs cannot have
}

// NewPool returns the node's pool, or why jobs cannot have what the site wants.
func NewPool(c config.Uplink, n Host) (Pool, error) {
	if c.Kind == config.UplinkAuto {
		p, err := n.auto()
		p.Name = c.Name
		return p, err
	}
	p := Pool{Kind: c.Kind, Name: c.Name, Parent: c.Parent, Addresses: c.Addresses, Routes: c.Routes, Gateway: c.Gateway}
	parent, err := n.parent(c)
	if err != nil {
		return Pool{}, err
	}
	if c.Share > 0 {
		if p.Addresses, err = n.share(c, parent); err != nil {
			return Pool{}, err
		}
	}
	if err := n.apart(p.Addresses, parent); err != nil {
		return Pool{}, err
	}
	return p, p.join(n, parent)
}

// parent returns the interface that macvlans stand on.
func (n Host) parent(c config.Uplink) (link.Interface, error) {
	i := slices.IndexFunc(n.Interfaces, func(i link.Interface) bool { return i.Name == c.Parent })
	if i < 0 {
		err := fmt.Errorf("uplink: the node has no interface %s", c.Parent)
		return link.Interface{}, hint.With(err, "GN264 correct uplink.parent: `ip link` lists the interfaces; an alternative name is not enough")
	}
	parent := n.Interfaces[i]
	if !parent.Up {
		return link.Interface{}, hint.With(fmt.Errorf("uplink: %s is down", c.Parent), "GN265 ip link set "+c.Parent+" up")
	}
	return parent, n.carries(parent)
}

// carries refuses the parents that the kernel refuses without a reason
// (drivers/net/macvlan.c:macvlan_port_create).
func (n Host) carries(parent link.Interface) error {
	ipvlan := func(i link.Interface) bool { return i.ID.Kind == "ipvlan" && i.Parent == parent.Index }
	switch {
	case slices.ContainsFunc(n.Interfaces, ipvlan):
		return hint.With(fmt.Errorf("uplink: %s has ipvlan interfaces on it, and cannot have macvlans besides", parent.Name), `GN267 take another parent, or kind = "auto"`)
	case parent.ID.Kind == "ipoib" || parent.Name == "lo":
		return hint.With(fmt.Errorf("uplink: %s is not Ethernet, on which a macvlan stands", parent.Name), `GN268 take another parent, or kind = "auto"`)
	}
	return nil
}

// share returns this node's part of the addresses for all nodes. The number of the node's own
// address in the parent's network says which part.
func (n Host) share(c config.Uplink, parent link.Interface) (config.Range, error) {
	networks := n.Networks[parent.Index]
	if len(networks) == 0 {
		err := fmt.Errorf("uplink: %s has no IPv4 address, by which the node's share is found", parent.Name)
		return config.Range{}, hint.With(err, "GN269 give it one, or leave uplink.share out")
	}
	own := networks[0]
	at := int64(number(own.Addr())-number(own.Masked().Addr())) * int64(c.Share)
	first, last := int64(number(c.Addresses.First)), int64(number(c.Addresses.Last))
	if first+at+int64(c.Share)-1 > last {
		err := fmt.Errorf("uplink: the share of %s in %s is beyond its end", own, c.Addresses)
		return config.Range{}, hint.With(err, "GN270 make uplink.addresses larger or uplink.share smaller: each host number of the network has a share")
	}
	return config.Range{First: address(first + at), Last: address(first + at + int64(c.Share) - 1)}, nil
}

// apart returns an error if addresses are those of a network that the node is in by another interface
// than the parent.
func (n Host) apart(r config.Range, parent link.Interface) error {
	for _, i := range n.Interfaces {
		if isHostEnd(i) || i.Index == parent.Index {
			continue
		}
		for _, network := range n.Networks[i.Index] {
			if r.Overlaps(network.Masked()) {
				err := fmt.Errorf("uplink: the addresses %s overlap with %s, the network of %s", r, network.Masked(), i.Name)
				return hint.With(err, "GN271 take addresses for uplink.addresses that nobody else has")
			}
		}
	}
	return nil
}

// join makes the jobs neighbors of the node on the parent's network.
func (p *Pool) join(n Host, parent link.Interface) error {
	networks := n.Networks[parent.Index]
	inside := func(a netip.Prefix) bool {
		return a.Contains(p.Addresses.First) && a.Contains(p.Addresses.Last)
	}
	i := slices.IndexFunc(networks, inside)
	if i < 0 {
		err := fmt.Errorf("uplink: the addresses %s are not in a network of %s", p.Addresses, parent.Name)
		return hint.With(err, "GN272 take addresses of the network that "+parent.Name+" is in, outside of what DHCP deals")
	}
	network := networks[i].Masked()
	if p.Gateway.IsValid() && !network.Contains(p.Gateway) {
		err := fmt.Errorf("uplink: the gateway %s is not in the network %s of %s", p.Gateway, network, parent.Name)
		return hint.With(err, "GN273 correct uplink.gateway")
	}
	p.Bits = network.Bits()
	all := config.NetworkRange(network)
	p.own = []netip.Addr{all.First, all.Last, p.Gateway}
	for _, a := range networks {
		p.own = append(p.own, a.Addr())
	}
	return nil
}

// Type returns the kind of interface that jobs get.
func (p Pool) Type() string {
	if p.Auto {
		return virtual.Veth
	}
	return virtual.Macvlan
}

// Free returns the first address that is not taken. It refuses the job if none is left: users decide how many jobs
// a node has at once.
func (p Pool) Free(taken []netip.Addr) (netip.Addr, error) {
	for n := number(p.Addresses.First); ; n++ {
		a := address(int64(n))
		if !slices.Contains(p.own, a) && !slices.Contains(taken, a) {
			return a, nil
		}
		if a == p.Addresses.Last {
			return netip.Addr{}, &gres.Refusal{
				Reason: gres.HeldByJobs, Ask: "uplink", Why: fmt.Sprintf("none of the addresses %s is free", p.Addresses),
				Do: "GN275 make uplink.addresses larger: the node needs one for each job that it may have at once",
			}
		}
	}
}

// Room returns how many jobs can have an uplink at once.
func (p Pool) Room() int {
	room := int(number(p.Addresses.Last)-number(p.Addresses.First)) + 1
	var seen []netip.Addr
	for _, a := range p.own {
		if a.IsValid() && !slices.Contains(seen, a) && p.Addresses.First.Compare(a) <= 0 && a.Compare(p.Addresses.Last) <= 0 {
			seen = append(seen, a)
		}
	}
	return room - len(seen)
}

// withBlocks leaves the pool the addresses whose blocks nobody else has ports of.
func (p *Pool) withBlocks(n Host) {
	last := number(p.Addresses.First) + (1<<16-ports.First)/blockSize
	p.Addresses.Last = address(int64(last))
	for at := number(p.Addresses.First) + 1; at <= last; at++ {
		b, _ := p.Block(address(int64(at)))
		if b.Overlaps(n.Ephemeral) || slices.ContainsFunc(n.Kept, b.Overlaps) {
			p.own = append(p.own, address(int64(at)))
		}
	}
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n int64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return netip.AddrFrom4(b)
}
