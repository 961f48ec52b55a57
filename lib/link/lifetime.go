package link

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/clock"
	"gresnet/lib/netlink"
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
	var expired []Message
	s.Addresses = keep(s.Addresses, func(m Message) (Message, bool) {
		left, ok := m.agedAddress(passed)
		if !ok {
			expired = append(expired, m)
		}
		return left, ok
	})
	s.Duplicates = keep(s.Duplicates, func(m Message) (Message, bool) { return m.agedAddress(passed) })
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

// agedAddress is an address some seconds later, if it is valid still.
func (m Message) agedAddress(passed uint32) (Message, bool) {
	out := slices.Clone(m)
	list, _ := netlink.Parse(out[addrHead:])
	info, ok := list.Find(unix.IFA_CACHEINFO)
	if !ok || len(info) != 16 {
		return m, true
	}
	if preferred := native.Uint32(info); preferred != forever {
		native.PutUint32(info, preferred-min(preferred, passed))
	}
	valid := native.Uint32(info[4:])
	if valid == forever {
		return out, true
	}
	native.PutUint32(info[4:], valid-min(valid, passed))
	return out, valid > passed+1
}
