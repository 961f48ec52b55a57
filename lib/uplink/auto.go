package uplink

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/hint"
	"gresnet/lib/link"
)

// autoNetwork is where automatic uplinks have their addresses from: a half of what RFC 2544 sets
// aside for tests of devices, so that no network has it. The other half is the overlay's.
var autoNetwork = netip.MustParsePrefix("198.19.0.0/16")

// autoBits is the length of a node's share of it: 4095 jobs.
const autoBits = 20

// autoMetric is worse than that of any route that a job's HCA brings.
const autoMetric = 1 << 16

var everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// auto is the pool of a node that jobs leave as its own programs do.
func (n Host) auto() (Pool, error) {
	leads := n.leads()
	if len(leads) == 0 {
		err := errors.New("uplink: the node has no way out that its jobs could take")
		return Pool{}, hint.With(err, `bring up the interface that leads to the management network, or set kind = "none" in [uplink]`)
	}
	addresses, err := n.vacant()
	if err != nil {
		return Pool{}, err
	}
	p := Pool{
		Kind: config.UplinkAuto, Addresses: addresses, Bits: 32, Gateway: addresses.First, Routes: []netip.Prefix{everywhere}, Metric: autoMetric,
		Auto: true, Beyond: true, NAT: true, Leads: leads, own: []netip.Addr{addresses.First},
	}
	// Those of the node itself, also where a job's HCA is in the same network.
	for _, i := range leads {
		p.Routes = n.toItself(p.Routes, i)
	}
	return p, nil
}

// leads are the interfaces by which the node reaches others, and that stay on the node.
func (n Host) leads() (all []link.Interface) {
	for _, i := range n.Interfaces {
		leads := slices.ContainsFunc(n.Ways, func(w link.Way) bool { return slices.Contains(w.Interfaces, i.Index) })
		if leads && i.Up && !i.Loopback && !IsHostEnd(i) && !n.moves(i) {
			all = append(all, i)
		}
	}
	return all
}

// moves tells whether a job can have an interface, or what it stands on.
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

// Stays is an error if an address of the node's can go with an HCA's interface to a job. One of IPv6 is not looked after.
func (n Host) Stays(a netip.Addr) error {
	for _, i := range n.Interfaces {
		if n.moves(i) && slices.ContainsFunc(n.Networks[i.Index], func(p netip.Prefix) bool { return p.Addr() == a }) {
			err := fmt.Errorf("%s is on %s, which jobs can have", a, i.Name)
			return hint.With(err, "have overlay.underlay mean addresses on interfaces that stay on the node: leave their HCA out of the mapping")
		}
	}
	return nil
}

// vacant is the first part of the network that is nobody's here.
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
	return config.Range{}, hint.With(err, `take kind = "veth" with addresses that nobody else has`)
}

// defaultBits is the length that a route must have at least to be about a network: what is shorter
// leads everywhere, or to a half of it, as VPNs have it.
const defaultBits = 8

// has tells whether an address of the node or a route is about a network.
func (n Host) has(p netip.Prefix) bool {
	jobs := map[int]bool{}
	for _, i := range n.Interfaces {
		if jobs[i.Index] = IsHostEnd(i); jobs[i.Index] {
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
