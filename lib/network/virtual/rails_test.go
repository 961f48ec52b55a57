package virtual_test

import (
	"net/netip"
	"strings"
	"testing"

	"gresnet/lib/network/virtual"
	"gresnet/test/netnstest"
)

func TestWhatIsForEverybodyGoesToTheJobsNodes(t *testing.T) {
	node, job := netnstest.New(t), netnstest.New(t)
	node.IP("addr add 10.9.0.1/24 dev lo")
	o := virtual.OverlayOf(7)
	o.Name, o.MTU, o.Path, o.Port = "eth0", 1500, 1450, 489
	o.Address, o.Node = netip.MustParsePrefix("10.9.0.1/24"), netip.MustParseAddr("10.9.0.1")
	o.Peers = []virtual.Peer{{Address: netip.MustParseAddr("10.9.0.2"), Node: netip.MustParseAddr("10.9.0.2")}}
	within(t, node, func() error { return virtual.MakeOverlay(o, job.FD()) })
	within(t, job, func() error { return virtual.RaiseOverlay(o) })
	for _, to := range []string{"10.9.0.255", "239.1.2.3", "255.255.255.255"} {
		if got := job.IP("route get " + to); !strings.Contains(got, "dev eth0 src 10.9.0.1 ") {
			t.Errorf("%s: %q", to, got)
		}
	}
}
