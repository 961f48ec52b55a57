// Package inet keeps the IPv4 and IPv6 settings of an interface: its addresses, its neighbours, its routes with
// their next hop objects, and the policy rules that name it or one of its addresses.
package inet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Route is a route as the kernel dumped it, made independent of the interface's index.
type Route []byte

// Family says of what kind the route's addresses are.
func (m Route) Family() byte { return m[0] }

// Protocol says who made the route (rtnetlink(7)).
func (m Route) Protocol() byte { return m[5] } // rtm_protocol

func (m Route) attributes() netlink.Attributes { return netlink.Kept(m, routeHead) }

// IsDefault tells a default route of the table that all packets are looked up in.
func (m Route) IsDefault() bool {
	// rtmsg: destination length, table, type
	return m[1] == 0 && m[4] == unix.RT_TABLE_MAIN && m[7] == unix.RTN_UNICAST
}

var nativeRoute = binary.NativeEndian

const (
	routeHead = unix.SizeofRtMsg

	routeFlags = unix.RTNH_F_ONLINK // what a request may say; the rest is the kernel's state
	rtaNhID    = 30                 // RTA_NH_ID of linux/rtnetlink.h, which x/sys/unix lacks
)

// cleanRoute makes a route as dumped comparable and sendable. What it says of
// the interface with an index it says of index 0 afterwards.
func cleanRoute(m []byte, index int) (Route, error) {
	list, err := netlink.Behind(m, routeHead, "route")
	if err != nil {
		return nil, err
	}
	out := Route(slices.Clone(m[:routeHead]))
	nativeRoute.PutUint32(out[8:], nativeRoute.Uint32(out[8:])&routeFlags)
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
		nativeRoute.PutUint32(out[8:], 0)
	}
	out.EachIndex(func(i []byte) {
		if nativeRoute.Uint32(i) == uint32(index) {
			nativeRoute.PutUint32(i, 0)
		}
	})
	return out, nil
}

// userHZ is the number of ticks to a second in what the kernel tells user space.
const userHZ = 100

// appendExpiry turns what is left of a route's life, which is dumped in ticks,
// to what a request has for it: seconds.
func appendExpiry(m Route, cacheInfo []byte) Route {
	const expires = 8 // offset of rta_expires in struct rta_cacheinfo
	if len(cacheInfo) < expires+4 {
		return m
	}
	ticks := int32(nativeRoute.Uint32(cacheInfo[expires:]))
	if ticks <= 0 {
		return m
	}
	return netlink.AppendUint32(m, unix.RTA_EXPIRES, uint32(ticks+userHZ-1)/userHZ)
}

// EachIndex shows f every place of a route that has an interface's index, for
// it to look and to write.
func (m Route) EachIndex(f func([]byte)) {
	for a := range m.attributes().All() {
		switch {
		case a.Kind == unix.RTA_OIF && len(a.Value) == 4:
			f(a.Value)
		case a.Kind == unix.RTA_MULTIPATH:
			eachHop(a.Value, func(hop []byte) { f(hop[4:8]) })
		}
	}
}

// RenumberRoutes returns routes in which interfaces have the indices that they have now, by those that they had.
func RenumberRoutes(list []Route, now map[int]int) []Route {
	return netlink.Keep(list, func(m Route) (Route, bool) {
		out := slices.Clone(m)
		out.EachIndex(func(b []byte) {
			if index, moved := now[int(nativeRoute.Uint32(b))]; moved {
				nativeRoute.PutUint32(b, uint32(index))
			}
		})
		return out, true
	})
}

// eachHop shows f every struct rtnexthop of RTA_MULTIPATH.
func eachHop(hops []byte, f func([]byte)) {
	for len(hops) >= unix.SizeofRtNexthop {
		size := int(nativeRoute.Uint16(hops))
		if size < unix.SizeofRtNexthop || size > len(hops) {
			return
		}
		f(hops[:size])
		hops = hops[min((size+3)&^3, len(hops)):]
	}
}

// ofHop returns the attributes of a struct rtnexthop.
func ofHop(hop []byte) netlink.Attributes { return netlink.Kept(hop, unix.SizeofRtNexthop) }

// on returns a route as a request for the interface with an index.
func (m Route) on(index int) []byte {
	out := slices.Clone(m)
	out.EachIndex(func(i []byte) {
		if nativeRoute.Uint32(i) == 0 {
			nativeRoute.PutUint32(i, uint32(index))
		}
	})
	return out
}

// needsOthers tells a route that other interfaces have a part in: a next hop
// of its own, or a next hop object of those with the numbers.
func (m Route) needsOthers(objects []uint32) bool {
	needs := slices.Contains(objects, m.Object())
	m.EachIndex(func(i []byte) { needs = needs || nativeRoute.Uint32(i) != 0 })
	return needs
}

// Object returns the number of the next hop object that a route uses, or 0.
func (m Route) Object() uint32 { return uint32(m.attributes().Number(rtaNhID)) }

// Key returns what makes a route the same route: all but the seconds that it has left.
func (m Route) Key() string {
	if _, ok := m.attributes().Find(unix.RTA_EXPIRES); !ok {
		return string(m)
	}
	return string(m[:routeHead]) + string(without(m[routeHead:], unix.RTA_EXPIRES)) + "expires"
}

// isOwn tells a route that only the kernel makes, for an address of the
// interface: a request could not give it the kernel's metric.
func (m Route) isOwn() bool {
	return m[5] == unix.RTPROT_KERNEL && m[7] != unix.RTN_UNICAST
}

// IsLocalIPv6 tells the route of one IPv6 address of the interface.
func (m Route) IsLocalIPv6() bool {
	return m.Family() == unix.AF_INET6 && m.isOwn() && m[7] == unix.RTN_LOCAL
}

// ComesWith tells a route that the kernel makes for an IPv6 address: the address's
// own, or where the interface forwards, the one of all routers of its network.
func (m Route) ComesWith(address netip.Prefix) bool {
	if m.Family() != unix.AF_INET6 || !m.isOwn() {
		return false
	}
	switch m[7] {
	case unix.RTN_LOCAL:
		return m.Destination() == address.Addr()
	case unix.RTN_ANYCAST:
		return m.Destination() == address.Masked().Addr()
	}
	return false
}

// hasGateway tells a route that another route must exist for.
func (m Route) hasGateway() bool {
	for a := range m.attributes().All() {
		if a.Kind == unix.RTA_GATEWAY || a.Kind == unix.RTA_VIA || a.Kind == unix.RTA_MULTIPATH {
			return true
		}
	}
	return false
}

// String names a route for people.
func (m Route) String() string {
	list := m.attributes()
	var b strings.Builder
	b.WriteString("default")
	for a := range list.All() {
		if addr, ok := netip.AddrFromSlice(a.Value); a.Kind == unix.RTA_DST && ok {
			b.Reset()
			fmt.Fprintf(&b, "%s/%d", addr, m[1])
		}
	}
	for a := range list.All() {
		if addr, ok := netip.AddrFromSlice(a.Value); a.Kind == unix.RTA_GATEWAY && ok {
			fmt.Fprintf(&b, " via %s", addr)
		}
		if a.Kind == unix.RTA_TABLE && len(a.Value) == 4 && nativeRoute.Uint32(a.Value) != unix.RT_TABLE_MAIN {
			fmt.Fprintf(&b, " table %d", nativeRoute.Uint32(a.Value))
		}
	}
	return b.String()
}

// PartRoutes parts the routes that other interfaces have a part in, too, from the others; objects are the
// numbers of the next hop objects that others have a part in.
func PartRoutes(list []Route, objects []uint32) (own, shared []Route) {
	shared, own = netlink.Part(list, func(m Route) bool { return m.needsOthers(objects) })
	return own, shared
}

// RouteBorrowers returns those among dumped routes that are of other interfaces than one, and prefer one
// of some sources. has tells whether an interface has an address: a route from one of its own is not borrowed.
func RouteBorrowers(dumped [][]byte, index int, sources []netip.Addr, has func(index int, a netip.Addr) (bool, error)) (list []Route, err error) {
	for _, a := range dumped {
		from := RouteSource(a)
		if !slices.Contains(sources, from) {
			continue
		}
		m, err := cleanRoute(a, index)
		if err != nil {
			return nil, err
		}
		if !m.needsOthers(nil) && (m.Object() == 0 || !isOfOthers(a, index)) {
			continue
		}
		own := false
		Route(a).EachIndex(func(i []byte) {
			if on := int(nativeRoute.Uint32(i)); on != index && !own && err == nil {
				own, err = has(on, from)
			}
		})
		if err != nil {
			return nil, err
		}
		if !own {
			list = append(list, m)
		}
	}
	return list, nil
}

// isOfOthers tells whether a route as dumped goes through other interfaces. The kernel also says which those of its next
// hop object are.
func isOfOthers(m Route, index int) (is bool) {
	m.EachIndex(func(i []byte) { is = is || nativeRoute.Uint32(i) != uint32(index) })
	return is
}

// SourcedRoutes returns the node's IPv4 routes that prefer a source. The node may have thousands of routes.
func SourcedRoutes(r *netlink.Route) (list [][]byte, err error) {
	if list, read, err := r.Kept(routeTable); read || err != nil {
		return list, err
	}
	again := func() { list = [][]byte{} }
	again()
	err = EachIPv4Route(r, again, func(m []byte) {
		if bytes.Contains(m, sourceHead) && RouteSource(m).IsValid() {
			list = append(list, slices.Clone(m))
		}
	})
	return list, err
}

// EachIPv4Route shows each the node's IPv4 routes, of all tables, as dumped. A route is good until each returns.
// Before all are shown once more, again is called.
func EachIPv4Route(r *netlink.Route, again func(), each func(m []byte)) error {
	return r.Each(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, ofFamily(unix.AF_INET, nil), again, func(m []byte) error {
		if len(m) >= routeHead && m[0] == unix.AF_INET {
			each(m)
		}
		return nil
	})
}

// sourceHead begins the attribute of an IPv4 route that has the source. A route without it is not taken apart.
var sourceHead = netlink.Append(nil, unix.RTA_PREFSRC, make([]byte, 4))[:unix.SizeofRtAttr]

// IsLeftOver tells the route of all routers of a network (anycast) where an interface is no router, or has no
// address of the network.
func (m Route) IsLeftOver(router bool, addresses []netip.Prefix) bool {
	if m.Family() != unix.AF_INET6 || !m.isOwn() || m[7] != unix.RTN_ANYCAST {
		return false
	}
	return !router || !slices.ContainsFunc(addresses, m.ComesWith)
}

// familyOf says of what kind an address is.
func familyOf(address netip.Prefix) byte {
	if address.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// routeTable has the routes of all families.
var routeTable = netlink.Table{
	Kind: unix.RTM_GETROUTE, Want: unix.RTM_NEWROUTE,
	All:     ofFamily(unix.AF_UNSPEC, nil),
	Of:      func(index int) []byte { return ofFamily(unix.AF_UNSPEC, through(index)) },
	Indices: indices,
	Keep: func(m []byte) bool {
		return len(m) >= routeHead && m[0] == unix.AF_INET && bytes.Contains(m, sourceHead) && RouteSource(m).IsValid()
	},
}

// indices returns the interfaces that a route as dumped goes through. One that uses a next hop object may say
// no more of it than its number (net.ipv4.nexthop_compat_mode).
func indices(m []byte, each func(int)) {
	if len(m) < routeHead {
		return
	}
	says := false
	Route(m).EachIndex(func(b []byte) {
		says = true
		each(int(nativeRoute.Uint32(b)))
	})
	if !says && Route(m).Object() != 0 {
		each(netlink.Unclear)
	}
}

// ReadRoutes returns the routes of some families that go through the interface, too. They are asked
// for after its addresses: an address without the routes that the kernel
// gave with it would be taken for one that somebody had removed them from.
func ReadRoutes(r *netlink.Route, index int, families ...byte) (list []Route, err error) {
	answers, err := r.Entries(routeTable, index)
	if err != nil {
		return nil, err
	}
	for _, family := range families {
		of := slices.DeleteFunc(slices.Clone(answers), func(m []byte) bool { return len(m) < routeHead || m[0] != family })
		routes, err := cleanAll(of, index)
		if err != nil {
			return nil, err
		}
		list = append(list, routes...)
	}
	return list, nil
}

func cleanAll(dumped [][]byte, index int) ([]Route, error) {
	return netlink.Cleaned(dumped, func(m []byte) (Route, error) { return cleanRoute(m, index) })
}

// ReadLocalRoutes returns the interface's IPv6 routes of the tables that some local ones are in, by
// which the kernel does not walk the node's others: the table local, or that of the VRF that
// the interface belongs to.
func ReadLocalRoutes(r *netlink.Route, index int, local []Route) (list []Route, err error) {
	var tables []uint32
	for _, m := range local {
		if !slices.Contains(tables, m.table()) {
			tables = append(tables, m.table())
		}
	}
	for _, table := range tables {
		answers, err := DumpRoutes(r, unix.AF_INET6, netlink.AppendUint32(through(index), unix.RTA_TABLE, table))
		if errors.Is(err, unix.ENOENT) {
			continue // ip6_fib.c:inet6_dump_fib, of a table that was never used
		}
		if err != nil {
			return nil, err
		}
		routes, err := cleanAll(answers, index)
		if err != nil {
			return nil, err
		}
		list = append(list, routes...)
	}
	return list, nil
}

// routeTable returns the number of a route's table, for which its head may have too few bits.
func (m Route) table() uint32 {
	return cmp.Or(uint32(m.attributes().Number(unix.RTA_TABLE)), uint32(m[4])) // rtm_table
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

// DumpRoutes returns the routes of a family that a filter lets through, as they are.
func DumpRoutes(r *netlink.Route, family byte, filter []byte) ([][]byte, error) {
	answers, err := r.Send(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, ofFamily(family, filter))
	// A kernel without IPv6 answers for all families that it has.
	return slices.DeleteFunc(answers, func(m []byte) bool { return len(m) < routeHead || m[0] != family }), err
}

// RouteSource returns the source address that a route as dumped prefers.
func RouteSource(m []byte) netip.Addr { return Route(m).attributes().Addr(unix.RTA_PREFSRC) }

// sourceless returns a route that leaves its source to the kernel.
func (m Route) sourceless() Route {
	return append(slices.Clone(m[:routeHead]), without(m[routeHead:], unix.RTA_PREFSRC)...)
}

// ApplyRoutes removes some routes from an interface, and adds others and the next hop objects that they use.
func ApplyRoutes(r *netlink.Route, index int, name string, remove, add []Route, objects []Nexthop) error {
	for _, m := range remove {
		_, err := r.Send(unix.RTM_DELROUTE, unix.NLM_F_ACK, 0, m.on(index))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s from %s: %w", m, name, err)
		}
	}
	add = slices.DeleteFunc(slices.Clone(add), Route.isOwn)
	// Each rank may need those before it.
	for rank := range byObject + 1 {
		// An object's gateway must be reachable, too.
		if rank == byObject {
			if err := ApplyNexthops(r, index, objects, name); err != nil {
				return err
			}
		}
		for _, m := range add {
			if m.rank() != rank {
				continue
			}
			if err := AddRoute(r, index, m, unix.NLM_F_APPEND, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// AddRoute gives an interface a route, without its preferred source if it cannot be had.
func AddRoute(r *netlink.Route, index int, m Route, how int, name string) error {
	err := give(r, index, m, how)
	// The source may be an address of another interface, which a job does not have, and
	// the node not yet (fib_semantics.c:fib_valid_prefsrc, route.c:ip6_route_info_create).
	if errors.Is(err, unix.EINVAL) && RouteSource(m).IsValid() {
		err = give(r, index, m.sourceless(), how)
	}
	if err != nil {
		return fmt.Errorf("add route %s to %s: %w", m, name, err)
	}
	return nil
}

// give gives an interface a route, as the last of those to its destination, or in place of one.
func give(r *netlink.Route, index int, m Route, how int) error {
	_, err := r.Send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_ACK|how, 0, m.on(index))
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

func (m Route) rank() int {
	switch {
	case m.Object() != 0:
		return byObject
	case m.hasGateway():
		return byGateway
	}
	return direct
}

// Aged returns a route some seconds later, if it is there still.
func (m Route) Aged(passed uint32) (Route, bool) {
	out := slices.Clone(m)
	left := out.attributes().Value(unix.RTA_EXPIRES)
	if len(left) != 4 {
		return m, true
	}
	seconds := nativeRoute.Uint32(left)
	nativeRoute.PutUint32(left, seconds-min(seconds, passed))
	return out, seconds > passed+1
}

// Survives returns what becomes of a route with an address that expires while others are
// left, nil if it goes.
func (m Route) Survives(expired netip.Prefix, left []netip.Prefix) Route {
	if m.ComesWith(expired) {
		if slices.ContainsFunc(left, m.ComesWith) {
			return m
		}
		return nil
	}
	if m.Family() != familyOf(expired) || RouteSource(m) != expired.Addr() {
		return m
	}
	// The next address of the network becomes the first one, from which the kernel has
	// its own routes then (devinet.c:__inet_del_ifa).
	heir := slices.IndexFunc(left, func(a netip.Prefix) bool { return a.Masked() == expired.Masked() })
	if heir < 0 || m.Protocol() != unix.RTPROT_KERNEL || m.Destination() == expired.Addr() {
		return nil
	}
	out := slices.Clone(m)
	copy(out.attributes().Value(unix.RTA_PREFSRC), left[heir].Addr().AsSlice())
	return out
}

// Destination returns the address that a route is to, or the first one of its network.
func (m Route) Destination() netip.Addr { return m.attributes().Addr(unix.RTA_DST) }

// Lost names the encapsulation of what takes the route, if the kernel does not tell all of it.
func (m Route) Lost() string {
	list := m.attributes()
	what := lost(list, unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP)
	eachHop(list.Value(unix.RTA_MULTIPATH), func(hop []byte) {
		what = cmp.Or(what, lost(ofHop(hop), unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP))
	})
	return what
}

// Kinds of encapsulation of linux/lwtunnel.h, and attributes of linux/seg6_local.h.
const (
	encapBPF          = 6
	encapSeg6Local    = 7
	seg6LocalBPF      = 8
	seg6LocalCounters = 10
)

// lost names the encapsulation that attributes describe, if the kernel does not tell all of it: it tells only a
// BPF program's name (lwt_bpf.c:bpf_fill_encap_info), and a counter begins again (seg6_local.c:parse_nla_counters).
func lost(list netlink.Attributes, kind, encap uint16) string {
	number := list.Number(kind)
	if number == encapBPF {
		return "a BPF program"
	}
	if number != encapSeg6Local {
		return ""
	}
	inner, _ := list.Nested(encap)
	if _, has := inner.Find(seg6LocalBPF); has {
		return "a BPF program"
	}
	if _, has := inner.Find(seg6LocalCounters); has {
		return "seg6local with counters"
	}
	return ""
}
