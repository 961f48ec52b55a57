package link

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Message is an address or a route as the kernel dumped it, made independent
// of the interface's index and of what the kernel counts by itself. What
// cannot be told apart by its Message is the same; what is sent back to the
// kernel as a request is restored with every attribute, also those that this
// program knows nothing of.
type Message []byte

// MarshalJSON writes a message as base64.
func (m Message) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(m)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Message) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*[]byte)(m)) }

const (
	addrHead  = unix.SizeofIfAddrmsg
	routeHead = unix.SizeofRtMsg
)

// Flags of an address that a request may set; the others say what the kernel did (linux/if_addr.h).
const addrFlags = unix.IFA_F_NODAD | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR | unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN

const forever = ^uint32(0)

// cleanAddr makes an address as dumped comparable and sendable.
func cleanAddr(m []byte) (Message, error) {
	if len(m) < addrHead {
		return nil, fmt.Errorf("address message of %d bytes", len(m))
	}
	list, err := attributes(m[addrHead:])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:addrHead])
	out[2] &= addrFlags & 0xff // ifa_flags
	native.PutUint32(out[4:], 0)
	for _, a := range list {
		v := slices.Clone(a.value)
		switch a.kind {
		case unix.IFA_FLAGS:
			if len(v) == 4 {
				native.PutUint32(v, native.Uint32(v)&addrFlags)
			}
		case unix.IFA_CACHEINFO:
			// preferred, valid: seconds that are left; then two time stamps.
			if len(v) == 16 {
				native.PutUint64(v[8:], 0)
			}
		}
		out = attribute(out, a.kind, v)
	}
	return out, nil
}

const (
	routeFlags = unix.RTNH_F_ONLINK // what a request may say; the rest is the kernel's state
	rtaNhID    = 30                 // RTA_NH_ID of linux/rtnetlink.h, which x/sys/unix lacks
)

// cleanRoute makes a route as dumped comparable and sendable. A route that
// needs more than its one interface is refused.
func cleanRoute(m []byte) (Message, error) {
	if len(m) < routeHead {
		return nil, fmt.Errorf("route message of %d bytes", len(m))
	}
	list, err := attributes(m[routeHead:])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:routeHead])
	native.PutUint32(out[8:], native.Uint32(out[8:])&routeFlags)
	for _, a := range list {
		v := slices.Clone(a.value)
		switch a.kind {
		case unix.RTA_CACHEINFO:
			continue
		case unix.RTA_OIF:
			v = []byte{0, 0, 0, 0}
		case unix.RTA_MULTIPATH:
			return nil, fmt.Errorf("route %s has several next hops, which gresnet cannot restore yet", Message(m).prefix())
		case rtaNhID:
			return nil, fmt.Errorf("route %s uses a next hop object, which gresnet cannot restore yet", Message(m).prefix())
		}
		out = attribute(out, a.kind, v)
	}
	return out, nil
}

// addrOn is an address as a request for the interface with an index.
func (m Message) addrOn(index int) []byte {
	out := slices.Clone([]byte(m))
	native.PutUint32(out[4:], uint32(index))
	return out
}

// routeOn is a route as a request for the interface with an index.
func (m Message) routeOn(index int) []byte {
	out := slices.Clone([]byte(m[:routeHead]))
	list, err := attributes(m[routeHead:])
	if err != nil {
		return out
	}
	for _, a := range list {
		if a.kind == unix.RTA_OIF {
			a.value = native.AppendUint32(nil, uint32(index))
		}
		out = attribute(out, a.kind, a.value)
	}
	return out
}

func (m Message) family() byte { return m[0] }

// routeKey is what makes a route the same route: every bit of it.
func (m Message) routeKey() string { return string(m) }

// ownRoute tells a route that only the kernel makes, for an address of the
// interface: a request could not give it the kernel's metric.
func (m Message) ownRoute() bool {
	return m[5] == unix.RTPROT_KERNEL && m[7] != unix.RTN_UNICAST
}

// localIPv6 tells the route of one IPv6 address of the interface.
func (m Message) localIPv6() bool {
	return m.family() == unix.AF_INET6 && m.ownRoute() && m[7] == unix.RTN_LOCAL
}

// tentative tells an address, as dumped, that waits for duplicate address detection.
func tentative(m []byte) bool {
	return len(m) >= addrHead && m[2]&unix.IFA_F_TENTATIVE != 0 && m[2]&unix.IFA_F_DADFAILED == 0
}

// hasGateway tells a route that another route must exist for.
func (m Message) hasGateway() bool {
	list, _ := attributes(m[routeHead:])
	return slices.ContainsFunc(list, func(a attr) bool { return a.kind == unix.RTA_GATEWAY || a.kind == unix.RTA_VIA })
}

// lifetime is how long an address is valid still, in seconds; forever is ^0.
func (m Message) lifetime() uint32 { return m.cacheInfo(4) }

// preferred is how long an address is preferred still, in seconds; forever is ^0.
func (m Message) preferred() uint32 { return m.cacheInfo(0) }

func (m Message) cacheInfo(offset int) uint32 {
	list, _ := attributes(m[addrHead:])
	for _, a := range list {
		if a.kind == unix.IFA_CACHEINFO && len(a.value) == 16 {
			return native.Uint32(a.value[offset:])
		}
	}
	return forever
}

// addrKey is what makes an address the same address: all but the seconds that
// a lifetime has left, which pass while it is away.
func (m Message) addrKey() string {
	if m.lifetime() == forever && m.preferred() == forever {
		return string(m)
	}
	out := slices.Clone([]byte(m[:addrHead]))
	list, _ := attributes(m[addrHead:])
	for _, a := range list {
		if a.kind != unix.IFA_CACHEINFO {
			out = attribute(out, a.kind, a.value)
		}
	}
	return string(out)
}

// Addr is the address that an address message is about.
func (m Message) Addr() netip.Prefix {
	list, _ := attributes(m[addrHead:])
	var addr netip.Addr
	for _, a := range list {
		// IFA_LOCAL is the own address where IFA_ADDRESS is a peer's.
		if a.kind == unix.IFA_LOCAL || a.kind == unix.IFA_ADDRESS && !addr.IsValid() {
			addr, _ = netip.AddrFromSlice(a.value)
		}
	}
	return netip.PrefixFrom(addr, int(m[1]))
}

// prefix names a route for people.
func (m Message) prefix() string {
	list, _ := attributes(m[routeHead:])
	var b strings.Builder
	b.WriteString("default")
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.value); a.kind == unix.RTA_DST && ok {
			b.Reset()
			fmt.Fprintf(&b, "%s/%d", addr, m[1])
		}
	}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.value); a.kind == unix.RTA_GATEWAY && ok {
			fmt.Fprintf(&b, " via %s", addr)
		}
		if a.kind == unix.RTA_TABLE && len(a.value) == 4 && native.Uint32(a.value) != unix.RT_TABLE_MAIN {
			fmt.Fprintf(&b, " table %d", native.Uint32(a.value))
		}
	}
	return b.String()
}
