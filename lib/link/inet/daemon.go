package inet

import "slices"

// daemons are the protocols of routing daemons: gated, mrt, zebra, bird, dnrouted, xorp, ntk, mrouted, keepalived,
// babel, openr, and those that FRR has for its own (linux/rtnetlink.h, FRR's zebra/rt_netlink.h). That of router
// advertisements (9) is the kernel's, and that of DHCP (16) is a manager's.
var daemons = []byte{8, 10, 11, 12, 13, 14, 15, 17, 18, 42, 99, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198}

// IsDaemons tells whether a routing daemon made what has a protocol. The daemon takes it back when the interface
// leaves, and makes it again when the interface is back.
func IsDaemons(protocol byte) bool { return slices.Contains(daemons, protocol) }

// UsesAny tells whether a route is by one of some next hop objects.
func (m Route) UsesAny(objects []uint32) bool {
	return m.Object() != 0 && slices.Contains(objects, m.Object())
}
