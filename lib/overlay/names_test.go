package overlay_test

import (
	"net/netip"
	"testing"

	"gresnet/lib/overlay"
	"gresnet/lib/uplink"
)

func TestHostsGiveTheNamesOfTheJobsNodesToTheJob(t *testing.T) {
	n := &overlay.Network{Own: 0, Nodes: []overlay.Node{
		{Name: "n1", Hostname: "host1", Address: netip.MustParseAddr("198.18.0.1")},
		{Name: "n2", Hostname: "host2.other.org", Address: netip.MustParseAddr("198.18.0.2")},
		{Name: "n3", Address: netip.MustParseAddr("198.18.0.3")},
	}}
	const node = "127.0.0.1 localhost n1\n127.0.1.1 host1.local host1\n::1 localhost ip6-localhost\n10.0.0.2 host2 licence\n10.0.0.3 n3.example.org n3 # three\n" +
		"10.0.0.33 n33 n3-ib\n# 10.0.0.1 n1\n10.0.0.9 nfs.example.org nfs"
	const want = "198.18.0.1 host1.local n1 host1 n1.example.org host1.example.org\n" +
		"198.18.0.2 host2.other.org n2 host2 n2.example.org host2.example.org\n198.18.0.3 n3.example.org n3\n" +
		"127.0.0.1 localhost\n::1 localhost ip6-localhost\n10.0.0.2 licence\n10.0.0.33 n33 n3-ib\n# 10.0.0.1 n1\n10.0.0.9 nfs.example.org nfs\n"
	search := uplink.SearchIn("nameserver 10.0.0.53\nsearch example.org. example.com\n")
	if got := uplink.HostsFile(node, n.Names("host1", search)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
