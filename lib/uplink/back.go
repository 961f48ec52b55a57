package uplink

import (
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/link"
)

// backNetwork is nobody's: IPv4 has always reserved it. Each uplink has 65536 addresses of it.
var backNetwork = netip.MustParsePrefix("240.0.0.0/4")

// backBits is the length of one uplink's part of it. The 12 bits between the two lengths are the
// last 12 of the uplink's address, and tell the 4096 automatic uplinks of a node apart.
const backBits = 16

// Back returns the network by which the node reaches the other nodes of the job that has the
// address, or an error if the node has networks of its own there.
func (n Host) Back(address netip.Addr) (netip.Prefix, error) {
	a, first := address.As4(), backNetwork.Addr().As4()
	back := netip.PrefixFrom(netip.AddrFrom4([4]byte{first[0] | a[2]&0xf, a[3], 0, 0}), backBits)
	if n.hasPart(back) {
		return netip.Prefix{}, fmt.Errorf("the node has networks of its own in %s", backNetwork)
	}
	return back, nil
}

// hasPart tells whether the node has an address or a route in a part of backNetwork. A shorter
// route leads everywhere, and does not count.
func (n Host) hasPart(p netip.Prefix) bool {
	for _, networks := range n.Networks {
		if slices.ContainsFunc(networks, func(o netip.Prefix) bool { return o.Masked().Overlaps(p) }) {
			return true
		}
	}
	return slices.ContainsFunc(n.Ways, func(w link.Way) bool { return w.To.Bits() >= backNetwork.Bits() && w.To.Overlaps(p) })
}
