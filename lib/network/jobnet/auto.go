package jobnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/link"
)

// autoNetwork has the addresses of automatic uplinks. It is a half of the network that RFC 2544
// reserves for tests of devices, so no site uses it. The other half is the overlay's.
var autoNetwork = netip.MustParsePrefix("198.19.0.0/16")

// autoBits is the length of a node's share of it, which has room for 4095 jobs.
const autoBits = 20

// autoMetric is higher than that of any route that a job's HCA brings.
const autoMetric = 1 << 16

var everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// auto returns the pool of a node whose jobs reach what its own programs reach.
func (n Host) auto() (Pool, error) {
	leads := n.leads()
	if len(leads) == 0 {
		err := errors.New("uplink: the node has no way out that its jobs could take")
		return Pool{}, hint.With(err, `GN261 bring up the interface that leads to the management network, or set kind = "none" in [uplink]`)
	}
	addresses, err := n.vacant()
	if err != nil {
		return Pool{}, err
	}
	p := Pool{
		Kind: config.UplinkAuto, Addresses: addresses, Bits: 32, Gateway: addresses.First, Routes: []netip.Prefix{everywhere}, Metric: autoMetric,
		Auto: true, Leads: leads, Ephemeral: n.Ephemeral, own: []netip.Addr{addresses.First},
	}
	if p.withBlocks(n); p.Room() == 0 {
		return Pool{}, n.noPorts()
	}
	for _, all := range n.Networks {
		for _, a := range all {
			p.All = append(p.All, a.Addr())
		}
	}
	// The node's own addresses have routes, too, in case a job's HCA is in the same network. Its networks have some in
	// case an HCA brings a route to all that is around them: slurmctld may be there.
	for _, i := range leads {
		if a := n.from(i); a.IsValid() {
			p.Ways = append(p.Ways, ports.Uplink{Index: i.Index, Address: a})
			if p.MTU == 0 || i.MTU < p.MTU {
				p.MTU = i.MTU
			}
		}
		for _, to := range n.around(i) {
			if !slices.Contains(p.Routes, to) {
				p.Routes = append(p.Routes, to)
			}
		}
	}
	// By the first one others reach the node's address, so it is one that has an address.
	first := slices.IndexFunc(p.Ways, func(u ports.Uplink) bool { return len(n.Networks[u.Index]) > 0 })
	if first < 0 {
		err := errors.New("uplink: the node has no IPv4 address where it reaches others")
		return Pool{}, hint.With(err, `GN899 give an interface that leads to the management network one, or set kind = "none" in [uplink]`)
	}
	p.Ways[0], p.Ways[first] = p.Ways[first], p.Ways[0]
	p.Source = p.Ways[0].Address
	return p, nil
}

// from returns the address that the node sends from by an interface. One without an address of its own, as of a router
// that is the node's neighbor, has another interface's, as its route says.
func (n Host) from(i link.Interface) netip.Addr {
	if own := n.Networks[i.Index]; len(own) > 0 {
		return own[0].Addr()
	}
	at := slices.IndexFunc(n.Ways, func(w link.Way) bool { return slices.Contains(w.Interfaces, i.Index) })
	return n.Ways[at].Source // invalid: as of a container's interface
}

// ErrNoPorts says that the node has no ports for jobs.
var ErrNoPorts = errors.New("the node leaves no ports for jobs")

func (n Host) noPorts() error {
	others := ""
	for _, b := range n.Kept {
		if b.Last > b.First && b.Last >= ports.First {
			others += fmt.Sprintf(", slurm.conf has %s", b)
		}
	}
	err := fmt.Errorf("uplink: %w: its own programs get %s%s, and jobs have blocks of %d from %d on", ErrNoPorts, n.Ephemeral, others, blockSize, ports.First)
	return hint.With(err, `GN873 sysctl -w net.ipv4.ip_local_port_range="32768 60999", and the same in /etc/sysctl.d; or set kind = "none" or "macvlan" in [uplink]`)
}

// around returns the node's own addresses on an interface, and its networks.
func (n Host) around(i link.Interface) (all []netip.Prefix) {
	for _, a := range n.Networks[i.Index] {
		all = append(all, netip.PrefixFrom(a.Addr(), 32))
	}
	for _, a := range n.Networks[i.Index] {
		all = append(all, a.Masked())
	}
	return all
}

// leads returns the interfaces by which the node reaches others, and which no job can get.
func (n Host) leads() (all []link.Interface) {
	for _, i := range n.Interfaces {
		leads := slices.ContainsFunc(n.Ways, func(w link.Way) bool { return slices.Contains(w.Interfaces, i.Index) })
		if leads && i.Up && !i.Loopback && !isHostEnd(i) && !n.moves(i) {
			all = append(all, i)
		}
	}
	return all
}

// moves tells whether a job can get an interface, or one below it.
func (n Host) moves(i link.Interface) bool {
	for range n.Interfaces {
		if n.Moves != nil && n.Moves(i) {
			return true
		}
		below := slices.IndexFunc(n.Interfaces, func(o link.Interface) bool { return o.Index == i.Parent && i.ID.Kind != "veth" })
		if below < 0 {
			return false
		}
		i = n.Interfaces[below]
	}
	return false
}

// Stays returns an error if an IPv4 address of the node can go to a job with an HCA's interface.
func (n Host) Stays(a netip.Addr) error {
	for _, i := range n.Interfaces {
		if n.moves(i) && slices.ContainsFunc(n.Networks[i.Index], func(p netip.Prefix) bool { return p.Addr() == a }) {
			err := fmt.Errorf("%s is on %s, which jobs can have", a, i.Name)
			return hint.With(err, "GN262 have overlay.underlay mean addresses on interfaces that stay on the node: leave their HCA out of the mapping")
		}
	}
	return nil
}

// vacant returns the first share of autoNetwork in which the node has no address and no route.
func (n Host) vacant() (config.Range, error) {
	const step = 1 << (32 - autoBits)
	first := int64(number(autoNetwork.Addr()))
	for at := first; at < first+1<<(32-autoNetwork.Bits()); at += step {
		p := netip.PrefixFrom(address(at), autoBits)
		if !n.has(p) {
			return config.NetworkRange(p), nil
		}
	}
	err := errors.New("uplink: the node has networks of its own all over " + autoNetwork.String())
	return config.Range{}, hint.With(err, `GN263 take kind = "macvlan" with addresses of the node's network, or free a sixteenth of it`)
}

// defaultBits is the least length of a route to some network. A shorter one leads everywhere, or to
// a half or less of everywhere, as VPNs have it.
const defaultBits = 8

// has tells whether the node has an address or a route in a network, besides those of jobs.
func (n Host) has(p netip.Prefix) bool {
	jobs := map[int]bool{}
	for _, i := range n.Interfaces {
		if jobs[i.Index] = isHostEnd(i); jobs[i.Index] {
			continue
		}
		if slices.ContainsFunc(n.Networks[i.Index], func(o netip.Prefix) bool { return o.Masked().Overlaps(p) }) {
			return true
		}
	}
	return slices.ContainsFunc(n.Ways, func(w link.Way) bool {
		ofJob := len(w.Interfaces) == 1 && jobs[w.Interfaces[0]]
		return !ofJob && w.To.Bits() >= defaultBits && w.To.Overlaps(p)
	})
}
