package snapshot

import (
	"net"
	"net/netip"

	"gresnet/lib/address"
	"gresnet/lib/link"
	"gresnet/lib/route"
	"gresnet/lib/sriov"
)

// Readdressed returns the settings for the interface of a VF that has another address: the IPv6
// link-local address that follows from the old one, and the routes to it, follow from the new one.
func (want Settings) Readdressed(a sriov.Address) Settings {
	had, has := linkLocal(want.MAC, ""), linkLocal(want.MAC, a.Port)
	if a.MAC != "" {
		has = linkLocal(a.MAC, "")
		want.MAC = a.MAC
	}
	if !had.IsValid() || !has.IsValid() {
		return want
	}
	var addresses []address.Address
	for _, m := range want.Addresses {
		addresses = append(addresses, m.Replace(had, has))
	}
	var routes []route.Route
	for _, m := range want.Routes {
		routes = append(routes, m.Replace(had, has))
	}
	want.Addresses, want.Routes = addresses, routes
	return want
}

// linkLocal returns the IPv6 link-local address that follows from a MAC (RFC 4291, appendix A), or on
// InfiniBand from the port's GUID (addrconf.c:addrconf_ifid_infiniband), which is another one if guid
// is not empty. It is the zero address if none follows.
func linkLocal(mac, guid string) netip.Addr {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return netip.Addr{}
	}
	id := [16]byte{0: 0xfe, 1: 0x80}
	switch {
	case link.IsIPoIB(mac):
		copy(id[8:], hw[12:])
		if port, err := sriov.ParseGUID(guid); err == nil {
			copy(id[8:], port)
		}
		id[8] |= 2
	case len(hw) == 6:
		copy(id[8:], []byte{hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]})
	default:
		return netip.Addr{}
	}
	return netip.AddrFrom16(id)
}
