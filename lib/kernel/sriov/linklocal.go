package sriov

import (
	"net"
	"net/netip"
)

// LinkLocal returns the IPv6 link-local address that follows from a MAC (RFC 4291, appendix A), or on
// InfiniBand from the port's GUID (addrconf.c:addrconf_ifid_infiniband), which is another one if guid
// is not empty. It is the zero address if none follows.
func LinkLocal(mac, guid string) netip.Addr {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return netip.Addr{}
	}
	id := [16]byte{0: 0xfe, 1: 0x80}
	switch len(hw) {
	case 20:
		copy(id[8:], hw[12:])
		if port, err := parseGUID(guid); err == nil {
			copy(id[8:], port)
		}
		id[8] |= 2
	case 6:
		copy(id[8:], []byte{hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]})
	default:
		return netip.Addr{}
	}
	return netip.AddrFrom16(id)
}
