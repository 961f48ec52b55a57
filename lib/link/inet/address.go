package inet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Flags of an address that a request may set; the others say what the kernel did (linux/if_addr.h).
const addressFlags = unix.IFA_F_NODAD | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR | unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN

const forever = ^uint32(0)

// Address is one as the kernel dumped it, made independent of the interface's index.
type Address []byte

// Family says of what kind an address is.
func (m Address) Family() byte { return m[0] }

var nativeAddress = binary.NativeEndian

const addressHead = unix.SizeofIfAddrmsg

// CleanAddress makes an address as dumped comparable and sendable.
func CleanAddress(m []byte) (Address, error) {
	list, err := netlink.Behind(m, addressHead, "address")
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:addressHead])
	out[2] &= addressFlags & 0xff // ifa_flags
	nativeAddress.PutUint32(out[4:], 0)
	for a := range list.All() {
		v := slices.Clone(a.Value)
		switch a.Kind {
		case unix.IFA_FLAGS:
			if len(v) == 4 {
				nativeAddress.PutUint32(v, nativeAddress.Uint32(v)&addressFlags)
			}
		case unix.IFA_CACHEINFO:
			// preferred, valid: seconds that are left; then two time stamps.
			if len(v) == 16 {
				nativeAddress.PutUint64(v[8:], 0)
			}
		}
		out = netlink.Append(out, a.Kind, v)
	}
	return out, nil
}

func (m Address) attributes() netlink.Attributes { return netlink.Kept(m, addressHead) }

// Tentative tells an address, as dumped, that waits for duplicate address detection.
func Tentative(m []byte) bool {
	return len(m) >= addressHead && m[2]&unix.IFA_F_TENTATIVE != 0 && m[2]&unix.IFA_F_DADFAILED == 0
}

// duplicate tells an address, as dumped, that was found to be another's, too. The kernel
// keeps it and does not use it; what has a lifetime it removes (addrconf.c:addrconf_dad_stop).
func duplicate(m []byte) bool { return m[0] == unix.AF_INET6 && m[2]&unix.IFA_F_DADFAILED != 0 }

// lifetime returns how long an address is valid still, in seconds; forever is ^0.
func (m Address) lifetime() uint32 { return m.cacheInfo(4) }

// preferred returns how long an address is preferred still, in seconds; forever is ^0.
func (m Address) preferred() uint32 { return m.cacheInfo(0) }

func (m Address) cacheInfo(offset int) uint32 {
	if info := m.attributes().Value(unix.IFA_CACHEINFO); len(info) == 16 {
		return nativeAddress.Uint32(info[offset:])
	}
	return forever
}

// Key returns what makes an address the same address: all but the seconds that
// a lifetime has left, which pass while it is away.
func (m Address) Key() string {
	if m.lifetime() == forever && m.preferred() == forever {
		return string(m)
	}
	out := slices.Clone([]byte(m[:addressHead]))
	for a := range m.attributes().All() {
		if a.Kind != unix.IFA_CACHEINFO {
			out = netlink.Append(out, a.Kind, a.Value)
		}
	}
	return string(out)
}

// Addr returns the address that an address message is about.
func (m Address) Addr() netip.Prefix {
	list := m.attributes()
	addr := list.Addr(unix.IFA_LOCAL) // where IFA_ADDRESS is a peer's
	if !addr.IsValid() {
		addr = list.Addr(unix.IFA_ADDRESS)
	}
	return netip.PrefixFrom(addr, int(m[1]))
}

// addressTable has the addresses of all interfaces.
var addressTable = netlink.Table{
	Kind: unix.RTM_GETADDR, Want: unix.RTM_NEWADDR,
	All: addressOf(0),
	Of:  addressOf,
	Indices: func(m []byte, each func(int)) {
		if len(m) >= addressHead {
			each(int(nativeAddress.Uint32(m[4:])))
		}
	},
}

// of asks for the addresses of an interface, 0: of all.
func addressOf(index int) []byte {
	request := make([]byte, addressHead)
	nativeAddress.PutUint32(request[4:], uint32(index))
	return request
}

// DumpAddresses returns the addresses of an interface as they are, 0: of all interfaces.
func DumpAddresses(r *netlink.Route, index int) ([][]byte, error) {
	return r.Entries(addressTable, index)
}

// ReadAddresses returns the interface's addresses, and apart from them those that another has, too, and the
// temporary ones, for privacy, that the kernel makes by itself of those that may have
// them: no request can.
func ReadAddresses(r *netlink.Route, index int) (list, duplicates, temporary []Address, err error) {
	answers, err := DumpAddresses(r, index)
	if err != nil {
		return nil, nil, nil, err
	}
	list = make([]Address, 0, len(answers))
	for _, a := range answers {
		m, err := CleanAddress(a)
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case duplicate(a):
			duplicates = append(duplicates, m)
		// The flag has another meaning with IPv4: IFA_F_SECONDARY.
		case m.Family() == unix.AF_INET6 && a[2]&unix.IFA_F_TEMPORARY != 0:
			temporary = append(temporary, m)
		default:
			list = append(list, m)
		}
	}
	return list, duplicates, temporary, nil
}

// Reachable tells whether an address is one that others than neighbors can reach.
func (m Address) Reachable() bool { return !m.Addr().Addr().IsLinkLocalUnicast() }

// Joins tells an address with which the kernel joins its group (`ip addr add ... autojoin`).
func (m Address) Joins() bool {
	return m.attributes().Number(unix.IFA_FLAGS)&unix.IFA_F_MCAUTOJOIN != 0
}

// RemoveAddress removes an address, if it is there.
func RemoveAddress(r *netlink.Route, index int, m Address, name string) error {
	_, err := r.Send(unix.RTM_DELADDR, unix.NLM_F_ACK, 0, netlink.On(m, index))
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %s from %s: %w", m.Addr(), name, err)
	}
	return nil
}

// GiveAddress gives an interface an address.
func GiveAddress(r *netlink.Route, index int, m Address, name string) error {
	_, err := r.Send(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, netlink.On(m, index))
	if err != nil {
		return fmt.Errorf("add address %s to %s: %w", m.Addr(), name, err)
	}
	return nil
}

// Untested returns an IPv6 address that the kernel takes without a test for
// duplicates, which without a carrier it would not begin: until one comes, no
// route could have the address as its source. The flag goes when the address is
// given again as it was; that it was taken stays.
func (m Address) Untested() Address {
	out := slices.Clone(m)
	out[2] |= unix.IFA_F_NODAD
	if set := out.attributes().Value(unix.IFA_FLAGS); len(set) == 4 {
		nativeAddress.PutUint32(set, nativeAddress.Uint32(set)|unix.IFA_F_NODAD)
	}
	return out
}

// AddressesInOrder turns the kernel's order into the one in which addresses must be
// given so that the kernel has them in its order again: IPv4 appends, IPv6
// puts the newest first (addrconf.c:ipv6_link_dev_addr).
func AddressesInOrder(list []Address) []Address {
	v6, v4 := netlink.Part(list, func(m Address) bool { return m.Family() == unix.AF_INET6 })
	slices.Reverse(v6)
	return append(v4, v6...)
}

// Aged returns an address some seconds later, if it is valid still.
func (m Address) Aged(passed uint32) (Address, bool) {
	out := slices.Clone(m)
	info := out.attributes().Value(unix.IFA_CACHEINFO)
	if len(info) != 16 {
		return m, true
	}
	if preferred := nativeAddress.Uint32(info); preferred != forever {
		nativeAddress.PutUint32(info, preferred-min(preferred, passed))
	}
	valid := nativeAddress.Uint32(info[4:])
	if valid == forever {
		return out, true
	}
	nativeAddress.PutUint32(info[4:], valid-min(valid, passed))
	return out, valid > passed+1
}
