package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
	"gresnet/lib/sysctl"
)

const (
	routeFlags = unix.RTNH_F_ONLINK // what a request may say; the rest is the kernel's state
	rtaNhID    = 30                 // RTA_NH_ID of linux/rtnetlink.h, which x/sys/unix lacks
)

// cleanRoute makes a route as dumped comparable and sendable. What it says of
// the interface with an index it says of index 0 afterwards.
func cleanRoute(m []byte, index int) (Message, error) {
	if len(m) < routeHead {
		return nil, fmt.Errorf("route message of %d bytes", len(m))
	}
	list, err := netlink.Parse(m[routeHead:])
	if err != nil {
		return nil, err
	}
	out := Message(slices.Clone(m[:routeHead]))
	native.PutUint32(out[8:], native.Uint32(out[8:])&routeFlags)
	_, byObject := list.Find(rtaNhID)
	for a := range list.All() {
		v := slices.Clone(a.Value)
		switch a.Kind {
		case unix.RTA_CACHEINFO:
			if out[0] == unix.AF_INET6 {
				out = appendExpiry(out, v)
			}
			continue
		case unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH, unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE:
			// The kernel says also what the object says, but takes one of the two only.
			if byObject {
				continue
			}
		}
		if a.Kind == unix.RTA_MULTIPATH {
			eachHop(v, func(hop []byte) { hop[2] &= routeFlags })
		}
		out = netlink.Append(out, a.Kind, v)
	}
	if byObject {
		native.PutUint32(out[8:], 0)
	}
	out.eachIndex(func(i []byte) {
		if native.Uint32(i) == uint32(index) {
			native.PutUint32(i, 0)
		}
	})
	return out, nil
}

// userHZ is the number of ticks to a second in what the kernel tells user space.
const userHZ = 100

// appendExpiry turns what is left of a route's life, which is dumped in ticks,
// to what a request has for it: seconds.
func appendExpiry(m Message, cacheInfo []byte) Message {
	const expires = 8 // offset of rta_expires in struct rta_cacheinfo
	if len(cacheInfo) < expires+4 {
		return m
	}
	ticks := int32(native.Uint32(cacheInfo[expires:]))
	if ticks <= 0 {
		return m
	}
	return netlink.AppendUint32(m, unix.RTA_EXPIRES, uint32(ticks+userHZ-1)/userHZ)
}

// eachIndex shows f every place of a route that has an interface's index, for
// it to look and to write.
func (m Message) eachIndex(f func([]byte)) {
	list, _ := netlink.Parse(m[routeHead:])
	for a := range list.All() {
		switch {
		case a.Kind == unix.RTA_OIF && len(a.Value) == 4:
			f(a.Value)
		case a.Kind == unix.RTA_MULTIPATH:
			eachHop(a.Value, func(hop []byte) { f(hop[4:8]) })
		}
	}
}

// eachHop shows f every struct rtnexthop of RTA_MULTIPATH.
func eachHop(hops []byte, f func([]byte)) {
	for len(hops) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(hops))
		if size < unix.SizeofRtNexthop || size > len(hops) {
			return
		}
		f(hops[:size])
		hops = hops[min((size+3)&^3, len(hops)):]
	}
}

// routeOn is a route as a request for the interface with an index.
func (m Message) routeOn(index int) []byte {
	out := slices.Clone(m)
	out.eachIndex(func(i []byte) {
		if native.Uint32(i) == 0 {
			native.PutUint32(i, uint32(index))
		}
	})
	return out
}

// needsOthers tells a route that other interfaces have a part in: a next hop
// of its own, or a next hop object of those with the numbers.
func (m Message) needsOthers(objects []uint32) bool {
	needs := slices.Contains(objects, m.object())
	m.eachIndex(func(i []byte) { needs = needs || native.Uint32(i) != 0 })
	return needs
}

// object is the number of the next hop object that a route uses, or 0.
func (m Message) object() uint32 {
	list, _ := netlink.Parse(m[routeHead:])
	if v := list.Value(rtaNhID); len(v) == 4 {
		return native.Uint32(v)
	}
	return 0
}

// routeKey is what makes a route the same route: all but the seconds that it has left.
func (m Message) routeKey() string {
	list, _ := netlink.Parse(m[routeHead:])
	if _, ok := list.Find(unix.RTA_EXPIRES); !ok {
		return string(m)
	}
	return string(m[:routeHead]) + string(without(m[routeHead:], unix.RTA_EXPIRES)) + "expires"
}

// ownRoute tells a route that only the kernel makes, for an address of the
// interface: a request could not give it the kernel's metric.
func (m Message) ownRoute() bool {
	return m[5] == unix.RTPROT_KERNEL && m[7] != unix.RTN_UNICAST
}

// localIPv6 tells the route of one IPv6 address of the interface.
func (m Message) localIPv6() bool {
	return m.family() == unix.AF_INET6 && m.ownRoute() && m[7] == unix.RTN_LOCAL
}

// leftOver tells the route of all routers of a network (anycast) where the interface is no router, or has no address of the
// network. The kernel counts an address twice that it has when ARP is switched off (addrconf.c:addrconf_dad_completed), so
// the route stays when forwarding is switched off or the address is removed. No request makes such a route.
func (want Settings) leftOver(m Message) bool {
	if m.family() != unix.AF_INET6 || !m.ownRoute() || m[7] != unix.RTN_ANYCAST {
		return false
	}
	return want.Sysctls[sysctl.Forwarding6] == "0" || !slices.ContainsFunc(want.Addresses, m.comesWith)
}

// withoutTentative is what the interface has of routes, less those of IPv6 addresses that
// were still tested for duplicates when the settings were read: the kernel gives
// an address its local route only after that. One that was another's, too, may pass the test now.
func (want Settings) withoutTentative(have []Message) []Message {
	later := slices.DeleteFunc(netlink.Missing(have, want.Routes, Message.routeKey), func(m Message) bool {
		return !m.localIPv6() && !want.leftOver(m) && !slices.ContainsFunc(want.Duplicates, m.comesWith)
	})
	return netlink.Missing(have, later, Message.routeKey)
}

// settledRoutes are the interface's settled routes, and those of its addresses
// that it gets with the carrier that it had and has no more: without one the kernel
// does not begin to test an address. There is nothing to be mended.
func (want Settings) settledRoutes(have Settings) []Message {
	routes := want.withoutTentative(have.Routes)
	if have.Running || !want.Running {
		return routes
	}
	due := slices.DeleteFunc(netlink.Missing(want.Routes, routes, Message.routeKey), func(m Message) bool {
		return !slices.ContainsFunc(have.Addresses, m.comesWith)
	})
	return append(routes, due...)
}

// comesWith tells a route that the kernel makes for an IPv6 address: the address's
// own, or where the interface forwards, the one of all routers of its network.
func (m Message) comesWith(address Message) bool {
	if m.family() != unix.AF_INET6 || !m.ownRoute() {
		return false
	}
	switch m[7] {
	case unix.RTN_LOCAL:
		return m.destination() == address.Addr().Addr()
	case unix.RTN_ANYCAST:
		return m.destination() == address.Addr().Masked().Addr()
	}
	return false
}

// hasGateway tells a route that another route must exist for.
func (m Message) hasGateway() bool {
	list, _ := netlink.Parse(m[routeHead:])
	for a := range list.All() {
		if a.Kind == unix.RTA_GATEWAY || a.Kind == unix.RTA_VIA || a.Kind == unix.RTA_MULTIPATH {
			return true
		}
	}
	return false
}

// prefix names a route for people.
func (m Message) prefix() string {
	list, _ := netlink.Parse(m[routeHead:])
	var b strings.Builder
	b.WriteString("default")
	for a := range list.All() {
		if m.family() == unix.AF_MPLS && a.Kind == unix.RTA_DST && len(a.Value) == 4 {
			return fmt.Sprintf("of MPLS label %d", binary.BigEndian.Uint32(a.Value)>>12)
		}
		if addr, ok := netip.AddrFromSlice(a.Value); a.Kind == unix.RTA_DST && ok {
			b.Reset()
			fmt.Fprintf(&b, "%s/%d", addr, m[1])
		}
	}
	for a := range list.All() {
		if addr, ok := netip.AddrFromSlice(a.Value); a.Kind == unix.RTA_GATEWAY && ok {
			fmt.Fprintf(&b, " via %s", addr)
		}
		if a.Kind == unix.RTA_TABLE && len(a.Value) == 4 && native.Uint32(a.Value) != unix.RT_TABLE_MAIN {
			fmt.Fprintf(&b, " table %d", native.Uint32(a.Value))
		}
	}
	return b.String()
}

// routes are the routes of the interface, and apart from them those that other
// interfaces have a part in, too, or that only the node has; objects are the numbers of the next hop
// objects that others have a part in.
func (c *Conn) routes(index int, objects []uint32) (own, home []Message, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		list, err := c.routesOf(index, family)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range list {
			if m.needsOthers(objects) {
				home = append(home, m)
			} else {
				own = append(own, m)
			}
		}
	}
	labels, err := c.mplsRoutes(index)
	return own, append(home, labels...), err
}

// routesOf are the routes of a family that go through the interface, too. They are asked
// for after its addresses, for each anew: an address without the routes that the kernel
// gave with it would be taken for one that somebody had removed them from.
func (c *Conn) routesOf(index int, family byte) ([]Message, error) {
	answers, err := c.dumpRoutes(family, through(index))
	if err != nil {
		return nil, err
	}
	return cleanRoutes(answers, index)
}

func cleanRoutes(dumped [][]byte, index int) ([]Message, error) {
	list := make([]Message, 0, len(dumped))
	for _, a := range dumped {
		m, err := cleanRoute(a, index)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// mplsRoutes are the routes of labels through the interface. The job has none: labels are the
// node's, and another namespace takes none until it is told how many (net.mpls.platform_labels).
func (c *Conn) mplsRoutes(index int) ([]Message, error) {
	if has, err := c.sysctls.HasMPLS(); err != nil || !has {
		return nil, err
	}
	return c.routesOf(index, unix.AF_MPLS)
}

// localRoutes are the interface's IPv6 routes of the tables that some local ones are in, by
// which the kernel does not walk the node's others: the table local, or that of the VRF that
// the interface belongs to.
func (c *Conn) localRoutes(index int, local []Message) (list []Message, err error) {
	var tables []uint32
	for _, m := range local {
		if !slices.Contains(tables, m.table()) {
			tables = append(tables, m.table())
		}
	}
	for _, table := range tables {
		answers, err := c.dumpRoutes(unix.AF_INET6, netlink.AppendUint32(through(index), unix.RTA_TABLE, table))
		if errors.Is(err, unix.ENOENT) {
			continue // ip6_fib.c:inet6_dump_fib, of a table that nobody has needed yet
		}
		if err != nil {
			return nil, err
		}
		routes, err := cleanRoutes(answers, index)
		if err != nil {
			return nil, err
		}
		list = append(list, routes...)
	}
	return list, nil
}

// table is the number of a route's table, for which its head may have too few bits.
func (m Message) table() uint32 {
	list, _ := netlink.Parse(m[routeHead:])
	if v := list.Value(unix.RTA_TABLE); len(v) == 4 {
		return native.Uint32(v)
	}
	return uint32(m[4]) // rtm_table
}

// through filters routes by an interface.
func through(index int) []byte {
	return netlink.AppendUint32(nil, unix.RTA_OIF, uint32(index))
}

// ofFamily asks for the routes of a family that a filter lets through.
func ofFamily(family byte, filter []byte) []byte {
	request := make([]byte, routeHead)
	request[0] = family
	return append(request, filter...)
}

func (c *Conn) dumpRoutes(family byte, filter []byte) ([][]byte, error) {
	answers, err := c.send(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, ofFamily(family, filter))
	// A kernel without IPv6 answers for all families that it has.
	return slices.DeleteFunc(answers, func(m []byte) bool { return len(m) < routeHead || m[0] != family }), err
}

// prefSource is the source address that a route as dumped prefers.
func prefSource(m []byte) netip.Addr {
	if len(m) < routeHead {
		return netip.Addr{}
	}
	list, _ := netlink.Parse(m[routeHead:])
	v := list.Value(unix.RTA_PREFSRC)
	addr, _ := netip.AddrFromSlice(v)
	return addr
}

// sourceless is a route that leaves its source to the kernel.
func (m Message) sourceless() Message {
	return append(slices.Clone(m[:routeHead]), without(m[routeHead:], unix.RTA_PREFSRC)...)
}

func (c *Conn) applyRoutes(index int, want Settings) error {
	have, _, err := c.routes(index, want.homeObjects())
	if err != nil {
		return fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(want.withoutTentative(have), want.Routes, Message.routeKey) {
		_, err := c.send(unix.RTM_DELROUTE, unix.NLM_F_ACK, 0, m.routeOn(index))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s from %s: %w", m.prefix(), want.Name, err)
		}
	}
	add := netlink.Missing(want.Routes, have, Message.routeKey)
	add = slices.DeleteFunc(add, Message.ownRoute)
	// Each rank may need those before it.
	for rank := range byObject + 1 {
		// An object's gateway must be reachable, too.
		if rank == byObject {
			if err := c.applyNexthops(index, want.Nexthops, want.Name); err != nil {
				return err
			}
		}
		for _, m := range add {
			if m.rank() != rank {
				continue
			}
			if err := c.addRoute(index, m, unix.NLM_F_APPEND, want.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Conn) addRoute(index int, m Message, how int, name string) error {
	err := c.giveRoute(index, m, how)
	// The source may be an address of another interface, which a job does not have, and
	// the node not yet (fib_semantics.c:fib_valid_prefsrc, route.c:ip6_route_info_create).
	if errors.Is(err, unix.EINVAL) && prefSource(m).IsValid() {
		err = c.giveRoute(index, m.sourceless(), how)
	}
	if err != nil {
		return fmt.Errorf("add route %s to %s: %w", m.prefix(), name, err)
	}
	return nil
}

func (c *Conn) giveRoute(index int, m Message, how int) error {
	_, err := c.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_ACK|how, 0, m.routeOn(index))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// What a route must wait for.
const (
	direct = iota
	byGateway
	byObject
)

func (m Message) rank() int {
	switch {
	case m.object() != 0:
		return byObject
	case m.hasGateway():
		return byGateway
	}
	return direct
}
