package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/link/inet"
)

// filters returns the hardware addresses beyond its own that the interface takes packets for.
func (c *Conn) filters(index int, mac string) ([]inet.Neighbour, error) {
	if link.IsIPoIB(mac) {
		return nil, nil // rtnetlink.c:ndo_dflt_fdb_dump knows Ethernet only
	}
	return inet.Filters(c.Route, index)
}

// readFilters reads the filters less those that macvlans put there for themselves.
func readFilters(c *Conn, r *reading) error {
	list, err := c.filters(r.i.Index, r.s.MAC)
	if err != nil || len(list) == 0 {
		return err
	}
	children, err := c.Children(r.i.Index)
	r.s.Filters = slices.DeleteFunc(list, func(m inet.Neighbour) bool {
		return slices.ContainsFunc(children, func(i link.Interface) bool { return i.MAC == m.String() })
	})
	return err
}

// applyFilters adds what is missing only: what there is beyond may be the
// address of a macvlan that stayed in another namespace.
func applyFilters(c *Conn, g *giving) error {
	if len(g.want.Filters) == 0 {
		return nil
	}
	have, err := c.filters(g.i.Index, g.want.MAC)
	if err != nil {
		return fmt.Errorf("read the hardware address filters of %s: %w", g.want.Name, err)
	}
	return inet.ApplyFilters(c.Route, g.i.Index, g.want.Name, g.want.Filters, have)
}
