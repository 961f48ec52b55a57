package link

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/clock"
	"gresnet/lib/netlink"
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
	left := func(m Message) (Message, bool) {
		for _, a := range expired {
			if m = m.survives(a, s.Addresses); m == nil {
				return nil, false
			}
		}
		return m.agedRoute(passed)
	}
	s.Routes, s.HomeRoutes = keep(s.Routes, left), keep(s.HomeRoutes, left)
	return s
}

func keep(list []Message, f func(Message) (Message, bool)) []Message {
	var out []Message
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

// agedRoute is a route some seconds later, if it is there still.
func (m Message) agedRoute(passed uint32) (Message, bool) {
	out := slices.Clone(m)
	list, _ := netlink.Parse(out[routeHead:])
	left, ok := list.Find(unix.RTA_EXPIRES)
	if !ok || len(left) != 4 {
		return m, true
	}
	seconds := native.Uint32(left)
	native.PutUint32(left, seconds-min(seconds, passed))
	return out, seconds > passed+1
}

// survives is what becomes of a route with an address that expires while others are
// left, nil if it goes.
func (m Message) survives(expired Message, left []Message) Message {
	if m.comesWith(expired) {
		if slices.ContainsFunc(left, m.comesWith) {
			return m
		}
		return nil
	}
	gone := expired.Addr()
	if m.family() != expired.family() || prefSource(m) != gone.Addr() {
		return m
	}
	// The next address of the network becomes the first one, from which the kernel has
	// its own routes then (devinet.c:__inet_del_ifa).
	heir := slices.IndexFunc(left, func(a Message) bool { return a.Addr().Masked() == gone.Masked() })
	if heir < 0 || m.routeProtocol() != unix.RTPROT_KERNEL || m.destination() == gone.Addr() {
		return nil
	}
	out := slices.Clone(m)
	list, _ := netlink.Parse(out[routeHead:])
	source := list.Value(unix.RTA_PREFSRC)
	copy(source, left[heir].Addr().Addr().AsSlice())
	return out
}

// destination is the address that a route is to, or the first one of its network.
func (m Message) destination() netip.Addr {
	list, _ := netlink.Parse(m[routeHead:])
	v := list.Value(unix.RTA_DST)
	addr, _ := netip.AddrFromSlice(v)
	return addr
}
