package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
)

// borrowers returns the routes of other interfaces that use an IPv4 address of
// this one as their source: the kernel removes them with the address
// (fib_semantics.c:fib_sync_down_addr), unless another interface has it, too. IPv6 leaves them.
func (c *Conn) borrowers(index int, addresses []inet.Address) ([]inet.Route, error) {
	var sources []netip.Addr
	for _, m := range addresses {
		if m.Family() == unix.AF_INET {
			sources = append(sources, m.Addr().Addr())
		}
	}
	if len(sources) == 0 {
		return nil, nil
	}
	from, err := link.Remembered(c.Conn, "sourced", func() ([][]byte, error) { return inet.SourcedRoutes(c.Route) })
	if err != nil {
		return nil, err
	}
	return inet.RouteBorrowers(from, index, sources, func(on int, a netip.Addr) (bool, error) {
		all, err := link.Remembered(c.Conn, "addresses", c.addresses)
		return slices.Contains(all[on], a), err
	})
}

// addresses returns those of all interfaces, by index.
func (c *Conn) addresses() (map[int][]netip.Addr, error) {
	answers, err := inet.DumpAddresses(c.Route, 0)
	if err != nil {
		return nil, err
	}
	all := map[int][]netip.Addr{}
	for _, a := range answers {
		m, err := inet.CleanAddress(a)
		if err != nil {
			return nil, err
		}
		on := int(native.Uint32(a[4:]))
		all[on] = append(all[on], m.Addr().Addr())
	}
	return all, nil
}

// borrowed tells whether routes of other interfaces use an address of this one as their source.
func (s Settings) borrowed() bool {
	return slices.ContainsFunc(s.NodeRoutes, func(m inet.Route) bool { return inet.RouteSource(m).IsValid() })
}

// readNodeRoutes adds to the routes that others have a part in those from the interface's addresses.
func readNodeRoutes(c *Conn, r *reading) error {
	if r.noBorrowers {
		return nil
	}
	borrowers, err := c.borrowers(r.i.Index, r.s.Addresses)
	r.s.NodeRoutes = netlink.With(r.s.NodeRoutes, borrowers, inet.Route.Key)
	return err
}

func applyNodeRoutes(c *Conn, g *giving) error {
	want, err := c.located(g.want.aged())
	if err != nil {
		return err
	}
	return c.despiteRules(want, func() error { return c.giveNodeRoutes(g.i.Index, want) })
}

// giveNodeRoutes adds the routes that only the node can have.
func (c *Conn) giveNodeRoutes(index int, want Settings) error {
	if err := inet.ApplyNexthops(c.Route, index, want.NodeNexthops, want.Name); err != nil {
		return err
	}
	have, err := c.nodeRoutes(index, want)
	if err != nil {
		return fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(want.NodeRoutes, have, inet.Route.Key) {
		how := unix.NLM_F_APPEND
		if m.Family() != unix.AF_INET {
			// IPv6 keeps the other interfaces' next hops (route.c:fib6_ifdown), and
			// has them all in one route when it is replaced.
			how = unix.NLM_F_REPLACE
		}
		if err := inet.AddRoute(c.Route, index, m, how, want.Name); err != nil {
			return err
		}
	}
	return nil
}

// nodeRoutes returns those that there are now of the settings' kind.
func (c *Conn) nodeRoutes(index int, want Settings) ([]inet.Route, error) {
	if len(want.NodeRoutes) == 0 {
		return nil, nil
	}
	_, shared, err := c.routes(index, want.nodeObjects())
	if err != nil {
		return nil, err
	}
	borrowers, err := c.borrowers(index, want.Addresses)
	return netlink.With(shared, borrowers, inet.Route.Key), err
}
