package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/neighbour"
)

// filters are the hardware addresses beyond its own that the interface takes packets for.
func (c *Conn) filters(index int, mac string) ([]neighbour.Neighbour, error) {
	if link.IsIPoIB(mac) {
		return nil, nil // rtnetlink.c:ndo_dflt_fdb_dump knows Ethernet only
	}
	return neighbour.Filters(c.Route, index)
}

// ownFilters are the filters less those that macvlans put there for themselves.
func (c *Conn) ownFilters(index int, mac string) ([]neighbour.Neighbour, error) {
	list, err := c.filters(index, mac)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	children, err := c.Children(index)
	return slices.DeleteFunc(list, func(m neighbour.Neighbour) bool {
		return slices.ContainsFunc(children, func(i link.Interface) bool { return i.MAC == m.String() })
	}), err
}

// applyFilters adds what is missing only: what there is beyond may be the
// address of a macvlan that stayed in another namespace.
func (c *Conn) applyFilters(index int, want Settings) error {
	if len(want.Filters) == 0 {
		return nil
	}
	have, err := c.filters(index, want.MAC)
	if err != nil {
		return fmt.Errorf("read the hardware address filters of %s: %w", want.Name, err)
	}
	return neighbour.ApplyFilters(c.Route, index, want.Name, want.Filters, have)
}
