package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/link/inet"
)

// carriesDefaultRoute tells whether the node's default route goes through the interface or one
// that stands on it, or from one of their addresses, with which the kernel removes it:
// without it the node may be out of everybody's reach.
func (s Settings) carriesDefaultRoute() bool {
	return slices.ContainsFunc(s.Routes, inet.Route.IsDefault) ||
		slices.ContainsFunc(s.NodeRoutes, inet.Route.IsDefault) ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.carriesDefaultRoute() })
}

// CarriesDefaultRoute is Settings.carriesDefaultRoute of the interface with an index, and knows of bridges
// and the like, too, to which what stands on it belongs.
func (c *Conn) CarriesDefaultRoute(index int, s Settings) (bool, error) {
	if s.carriesDefaultRoute() {
		return true, nil
	}
	above, err := c.Above(index)
	if err != nil {
		return false, err
	}
	for _, i := range above {
		own, shared, err := c.routes(i, nil)
		if err != nil {
			return false, fmt.Errorf("read the routes of interface %d: %w", i, err)
		}
		if slices.ContainsFunc(append(own, shared...), inet.Route.IsDefault) {
			return true, nil
		}
	}
	return false, nil
}
