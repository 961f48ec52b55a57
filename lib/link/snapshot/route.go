package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/sysctl"
)

// leftOver tells the route of all routers of a network (anycast) where the interface is no router, or has no address of the
// network. The kernel counts an address twice that it has when ARP is switched off (addrconf.c:addrconf_dad_completed), so
// the route stays when forwarding is switched off or the address is removed. No request makes such a route.
func (want Settings) leftOver(m inet.Route) bool {
	return m.IsLeftOver(want.Sysctls[sysctl.Forwarding6] != "0", prefixes(want.Addresses))
}

// prefixes returns the addresses that messages are about.
func prefixes(list []inet.Address) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(list))
	for _, m := range list {
		all = append(all, m.Addr())
	}
	return all
}

// comesWithAny tells a route that the kernel makes for one of some addresses.
func comesWithAny(m inet.Route, addresses []inet.Address) bool {
	return slices.ContainsFunc(addresses, func(a inet.Address) bool { return m.ComesWith(a.Addr()) })
}

// withoutTentative returns what the interface has of routes, less those of IPv6 addresses that
// were still tested for duplicates when the settings were read: the kernel gives
// an address its local route only after that. One that was another's, too, may pass the test now.
func (want Settings) withoutTentative(have []inet.Route) []inet.Route {
	later := slices.DeleteFunc(netlink.Missing(have, want.Routes, inet.Route.Key), func(m inet.Route) bool {
		return !m.IsLocalIPv6() && !want.leftOver(m) && !comesWithAny(m, want.Duplicates)
	})
	return netlink.Missing(have, later, inet.Route.Key)
}

// settledRoutes returns the interface's settled routes, and those of its addresses
// that it gets with the carrier that it had and has no more: without one the kernel
// does not begin to test an address. There is nothing to be fixed.
func (want Settings) settledRoutes(have Settings) []inet.Route {
	routes := want.withoutTentative(have.Routes)
	if have.Running || !want.Running {
		return routes
	}
	due := slices.DeleteFunc(netlink.Missing(want.Routes, routes, inet.Route.Key), func(m inet.Route) bool {
		return !comesWithAny(m, have.Addresses)
	})
	return append(routes, due...)
}

// routes returns the routes of the interface, and apart from them those that other
// interfaces have a part in, too, or that only the node has; objects are the numbers of the next hop
// objects that others have a part in.
func (c *Conn) routes(index int, objects []uint32) (own, shared []inet.Route, err error) {
	list, err := inet.ReadRoutes(c.Route, index, unix.AF_INET, unix.AF_INET6)
	if err != nil {
		return nil, nil, err
	}
	own, shared = inet.PartRoutes(list, objects)
	return own, shared, nil
}

// nodeObjects returns the numbers of the next hop objects that only the node can have.
func (s Settings) nodeObjects() []uint32 {
	return inet.NexthopIDs(s.NodeNexthops)
}

// applyRoutes also gives the next hop objects that they use.
func applyRoutes(c *Conn, g *giving) error {
	return c.despiteRules(g.want, func() error {
		have, _, err := c.routes(g.i.Index, g.want.nodeObjects())
		if err != nil {
			return fmt.Errorf("read the routes of %s: %w", g.want.Name, err)
		}
		if g.stage != InJob {
			have = less(have, func(m inet.Route) bool { return inet.IsDaemons(m.Protocol()) })
		}
		remove := netlink.Missing(g.want.withoutTentative(have), g.want.Routes, inet.Route.Key)
		add := netlink.Missing(g.want.Routes, have, inet.Route.Key)
		return inet.ApplyRoutes(c.Route, g.i.Index, g.want.Name, remove, add, g.want.Nexthops)
	})
}

// despiteRules does what the rules would forbid.
func (c *Conn) despiteRules(want Settings, do func() error) error {
	tables := inet.DirectTables(want.Routes)
	var ways []inet.Way
	for _, gateway := range inet.Gateways(slices.Concat(want.Routes, want.NodeRoutes), slices.Concat(want.Nexthops, want.NodeNexthops)) {
		ways = append(ways, inet.Way{Gateway: gateway, Tables: tables})
	}
	return inet.DespiteRules(c.Route, want.forRules(), ways, do)
}

// readRules reads the interface's policy rules.
func readRules(c *Conn, r *reading) error {
	all, err := inet.ReadRules(c.Route, r.s.forRules())
	r.s.ownRules, r.s.Rules = netlink.Part(all, inet.Rule.IsOwn)
	return err
}

// differRules names policy rules that are missing, and those that a killed run has left.
func differRules(c *Conn, o comparing) ([]string, error) {
	diff, err := lacking("policy rule", func(s Settings) []inet.Rule { return s.Rules })(c, o)
	for _, m := range o.have.ownRules {
		diff = append(diff, fmt.Sprintf("policy rule %s of gresnet's is left", m))
	}
	return diff, err
}

// forRules returns what policy rules name the interface by.
func (s Settings) forRules() inet.Interface {
	i := inet.Interface{Name: s.Name}
	for _, m := range s.Addresses {
		i.Addresses = append(i.Addresses, m.Addr().Addr())
	}
	return i
}
