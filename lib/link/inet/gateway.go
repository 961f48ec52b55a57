package inet

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Gateways returns the IPv4 gateways of routes and next hop objects, each once.
func Gateways(routes []Route, objects []Nexthop) (all []netip.Addr) {
	add := func(a netip.Addr) {
		if a.Is4() && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	for _, m := range routes {
		list := m.attributes()
		add(list.Addr(unix.RTA_GATEWAY))
		eachHop(list.Value(unix.RTA_MULTIPATH), func(hop []byte) { add(ofHop(hop).Addr(unix.RTA_GATEWAY)) })
	}
	for _, m := range objects {
		add(m.attributes().Addr(unix.NHA_GATEWAY))
	}
	return all
}

// DirectTables returns the main table, and the tables that have IPv4 routes without a gateway.
func DirectTables(routes []Route) []uint32 {
	tables := []uint32{unix.RT_TABLE_MAIN}
	for _, m := range routes {
		t := m.table()
		if m.Family() == unix.AF_INET && m.rank() == direct && t != unix.RT_TABLE_LOCAL && !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
	}
	return tables
}
