package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

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

// ownRoute tells a route that only the kernel makes, for an address of the
// interface: a request could not give it the kernel's metric.
func (m Message) ownRoute() bool {
	return m[5] == unix.RTPROT_KERNEL && m[7] != unix.RTN_UNICAST
}

// localIPv6 tells the route of one IPv6 address of the interface.
func (m Message) localIPv6() bool {
	return m.family() == unix.AF_INET6 && m.ownRoute() && m[7] == unix.RTN_LOCAL
}

// hasGateway tells a route that another route must exist for.
func (m Message) hasGateway() bool {
	list, _ := attributes(m[routeHead:])
	return slices.ContainsFunc(list, func(a attr) bool { return a.kind == unix.RTA_GATEWAY || a.kind == unix.RTA_VIA })
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

func (c *Conn) routes(index int) ([]Message, error) {
	var list []Message
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, routeHead)
		request[0] = family
		request = attribute(request, unix.RTA_OIF, native.AppendUint32(nil, uint32(index)))
		answers, err := c.send(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, request)
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			if len(a) > 0 && a[0] != family {
				continue // a kernel without IPv6 answers for all families that it has
			}
			m, err := cleanRoute(a)
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func (c *Conn) applyRoutes(index int, want Settings) error {
	have, err := c.routes(index)
	if err != nil {
		return fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	for _, m := range missing(have, want.Routes, Message.key) {
		_, err := c.send(unix.RTM_DELROUTE, unix.NLM_F_ACK, 0, m.routeOn(index))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s from %s: %w", m.prefix(), want.Name, err)
		}
	}
	add := missing(want.Routes, have, Message.key)
	add = slices.DeleteFunc(add, Message.ownRoute)
	// A gateway must be reachable before a route through it: those without one first.
	slices.SortStableFunc(add, func(a, b Message) int { return after(a) - after(b) })
	for _, m := range add {
		_, err := c.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND|unix.NLM_F_ACK, 0, m.routeOn(index))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add route %s to %s: %w", m.prefix(), want.Name, err)
		}
	}
	return nil
}

func after(m Message) int {
	if m.hasGateway() {
		return 1
	}
	return 0
}
