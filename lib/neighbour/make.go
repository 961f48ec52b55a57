package neighbour

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// Permanent returns the request for a neighbour that the kernel does not ask for: an interface has an
// address at a hardware address.
func Permanent(index int, address netip.Addr, mac net.HardwareAddr) []byte {
	family := byte(unix.AF_INET6)
	if address.Is4() {
		family = unix.AF_INET
	}
	m := head(index, family, unix.NUD_PERMANENT, 0)
	return netlink.Append(netlink.Append(m, unix.NDA_DST, address.AsSlice()), unix.NDA_LLADDR, mac)
}

// Device returns the request by which a VXLAN sends what is for a hardware address to a node
// (`bridge fdb replace MAC dst NODE self`).
func Device(index int, mac net.HardwareAddr, node netip.Addr) []byte {
	m := head(index, unix.AF_BRIDGE, unix.NUD_NOARP|unix.NUD_PERMANENT, unix.NTF_SELF)
	return netlink.Append(netlink.Append(m, unix.NDA_DST, node.AsSlice()), unix.NDA_LLADDR, mac)
}

// head is a message's fixed part (struct ndmsg).
func head(index int, family byte, state uint16, flags byte) []byte {
	m := make([]byte, headSize)
	m[0], m[10] = family, flags
	native.PutUint32(m[4:], uint32(index))
	native.PutUint16(m[8:], state)
	return m
}
