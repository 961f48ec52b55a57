package uplink_test

import (
	"net/netip"
	"testing"

	"gresnet/lib/uplink"
)

func TestHostsGiveTheNodesNameToTheJob(t *testing.T) {
	a := netip.MustParseAddr("10.8.0.1")
	for _, c := range []struct{ name, hosts, want string }{
		{"node1", "127.0.0.1 localhost\n192.0.2.1 node1\n", "10.8.0.1 node1\n127.0.0.1 localhost\n"},
		{"node1", "192.0.2.1 node1.example.org node1 licence # own\n::1 localhost", "10.8.0.1 node1.example.org node1\n192.0.2.1 licence\n::1 localhost\n"},
		{"node1.example.org", "", "10.8.0.1 node1.example.org node1\n"},
		{"node1", "192.0.2.11 node11\n#192.0.2.1 node1\n", "10.8.0.1 node1\n192.0.2.11 node11\n#192.0.2.1 node1\n"},
	} {
		if got := uplink.HostsFile(c.hosts, []uplink.Names{uplink.NamesOf(a, "", c.name)}); got != c.want {
			t.Errorf("%s in %q became %q, want %q", c.name, c.hosts, got, c.want)
		}
	}
}
