package snapshot

import (
	"time"

	"gresnet/lib/address"
	"gresnet/lib/clock"
	"gresnet/lib/route"
)

// aged are the settings as they are to be now: lifetimes are shorter by the
// time that has passed since the settings were read, and what has expired is not in
// them. What has a second left is let go, too, so that nothing expires between
// being restored and being compared.
func (s Settings) aged() Settings {
	if s.Taken == 0 {
		return s
	}
	passed := uint32((clock.SinceBoot() - s.Taken + time.Second - 1) / time.Second)
	var expired []address.Address
	s.Addresses = keep(s.Addresses, func(m address.Address) (address.Address, bool) {
		left, ok := m.Aged(passed)
		if !ok {
			expired = append(expired, m)
		}
		return left, ok
	})
	s.Duplicates = keep(s.Duplicates, func(m address.Address) (address.Address, bool) { return m.Aged(passed) })
	valid := prefixes(s.Addresses)
	left := func(m route.Route) (route.Route, bool) {
		for _, a := range expired {
			if m = m.Survives(a.Addr(), valid); m == nil {
				return nil, false
			}
		}
		return m.Aged(passed)
	}
	s.Routes, s.HomeRoutes = keep(s.Routes, left), keep(s.HomeRoutes, left)
	return s
}

func keep[M ~[]byte](list []M, f func(M) (M, bool)) []M {
	var out []M
	for _, m := range list {
		if m, ok := f(m); ok {
			out = append(out, m)
		}
	}
	return out
}
