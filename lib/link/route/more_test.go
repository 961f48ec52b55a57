package route

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// over returns an IPv6 route as the kernel dumps it: an only hop is in the route's own attributes.
func over(seconds uint32, hops ...byte) Route {
	m := Route(make([]byte, headSize))
	m[0] = unix.AF_INET6
	m = netlink.Append(m, unix.RTA_DST, []byte{0xfd})
	m = netlink.AppendUint32(m, unix.RTA_EXPIRES, seconds)
	if len(hops) == 1 {
		m[8] = flags
		return netlink.Append(netlink.Append(m, unix.RTA_GATEWAY, []byte{hops[0]}), unix.RTA_OIF, []byte{hops[0], 0, 0, 0})
	}
	var all []byte
	for _, n := range hops {
		hop := netlink.Append([]byte{0, 0, 0, n, n, 0, 0, 0}, unix.RTA_GATEWAY, []byte{n})
		native.PutUint16(hop, uint16(len(hop)))
		all = append(all, hop...)
	}
	return netlink.Append(m, unix.RTA_MULTIPATH, all)
}

func TestARouteHasMoreThanAnotherWithAPartOfItsHops(t *testing.T) {
	all := [][]byte{{1}, {2}, {3}, {1, 2}, {2, 1}, {2, 3}, {1, 2, 3}, {3, 2, 1}}
	for _, a := range all {
		for _, b := range all {
			want := len(a) > len(b) && !slices.ContainsFunc(b, func(hop byte) bool { return !slices.Contains(a, hop) })
			if got := over(7, a...).HasMoreThan(over(9, b...)); got != want {
				t.Errorf("%v has more than %v: %t", a, b, got)
			}
		}
	}
	elsewhere := over(7, 1)
	elsewhere[1] = 64
	if over(7, 1, 2).HasMoreThan(elsewhere) {
		t.Error("a route has more than one to elsewhere")
	}
}

func TestAGroupHasMoreThanAPartOfItAndNotThanAnObjectOfItsNumber(t *testing.T) {
	object := func(id uint32, members ...byte) Nexthop {
		m := netlink.AppendUint32(make([]byte, nexthopHead), unix.NHA_ID, id)
		var group []byte
		for _, n := range members {
			group = append(group, n, 0, 0, 0, 0, 0, 0, 0)
		}
		if group == nil {
			return m
		}
		return netlink.Append(m, unix.NHA_GROUP, group)
	}
	group := object(9, 7, 8)
	for want, list := range map[bool][]Nexthop{true: {object(9, 7), object(9, 8)}, false: {object(9), object(9, 7, 8), object(9, 7, 10), object(9, 10), object(11, 7)}} {
		for _, m := range list {
			if got := group.HasMoreThan(m); got != want {
				t.Errorf("group 7/8 has more than %v of %v: %t", m.Members(), m, got)
			}
		}
	}
}
