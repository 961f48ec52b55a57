package snapshot

import (
	"time"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/link/inet"
)

// aged returns the settings with the lifetimes that are left of them. It leaves out what has
// expired, and what has a second or less left, so that nothing expires between the restore and the
// comparison.
func (s Settings) aged() Settings {
	if s.Taken == 0 {
		return s
	}
	passed := uint32((proc.SinceBoot() - s.Taken + time.Second - 1) / time.Second)
	var expired []inet.Address
	s.Addresses = netlink.Keep(s.Addresses, func(m inet.Address) (inet.Address, bool) {
		left, ok := m.Aged(passed)
		if !ok {
			expired = append(expired, m)
		}
		return left, ok
	})
	s.Duplicates = netlink.Keep(s.Duplicates, func(m inet.Address) (inet.Address, bool) { return m.Aged(passed) })
	valid := prefixes(s.Addresses)
	left := func(m inet.Route) (inet.Route, bool) {
		for _, a := range expired {
			if m = m.Survives(a.Addr(), valid); m == nil {
				return nil, false
			}
		}
		return m.Aged(passed)
	}
	s.Routes, s.NodeRoutes = netlink.Keep(s.Routes, left), netlink.Keep(s.NodeRoutes, left)
	return s
}
