package inet

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/messagetest"
)

func FuzzRoutes(f *testing.F) {
	m := netlink.Append(make([]byte, routeHead), unix.RTA_OIF, []byte{7, 0, 0, 0})
	f.Add(netlink.Append(m, unix.RTA_MULTIPATH, []byte{8, 0, 1, 0, 7, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0}))
	address := netip.MustParsePrefix("fd00::2/64")
	messagetest.Fuzz(f, func(m []byte) (Route, error) { return cleanRoute(m, messagetest.Index) }, Route.on, func(m Route) {
		m.Key()
		m.needsOthers(nil)
		m.Lost()
		m.Aged(7)
		m.Survives(address, nil)
		_ = m.String()
	})
}

func FuzzNexthops(f *testing.F) {
	f.Add(netlink.Append(make([]byte, nexthopHead), unix.NHA_OIF, []byte{7, 0, 0, 0}))
	messagetest.Fuzz(f, cleanNexthop, Nexthop.on, func(m Nexthop) {
		m.Members()
		m.Lost()
		_ = m.String()
	})
}
