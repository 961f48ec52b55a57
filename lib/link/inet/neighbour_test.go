package inet

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/messagetest"
)

func FuzzNeighbours(f *testing.F) {
	f.Add([]byte{unix.AF_INET, 0, 0, 0, 7, 0, 0, 0, unix.NUD_PERMANENT, 0, 0, unix.RTN_UNICAST})
	messagetest.Fuzz(f, cleanNeighbour, netlink.On[Neighbour], func(m Neighbour) { _ = m.String() })
}
