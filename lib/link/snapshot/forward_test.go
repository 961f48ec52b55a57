package snapshot_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

func TestWaysAreTheRoutesToElsewhereAndWhatTheyGoBy(t *testing.T) {
	node := netnstest.New(t)
	node.Run(`ip link add a0 type veth peer name a1; ip link set a0 up; ip link set a1 up; ip addr add 10.0.0.2/24 dev a0; ip addr add 10.1.0.2/24 dev a1
ip route add default nexthop via 10.0.0.1 dev a0 nexthop via 10.1.0.1 dev a1; ip route add 172.16.0.0/12 via 10.0.0.1 table 100; ip route add blackhole 192.0.2.0/24
ip nexthop add id 7 via 10.1.0.1 dev a1; ip route add 172.18.0.0/16 nhid 7; ip route add 198.51.100.1 dev a1 src 10.0.0.2`)
	all := waysTo(t, node, "0.0.0.0/0")
	if got, want := strings.Join(all, ", "), "0.0.0.0/0 a0 a1, 10.0.0.0/24 a0 from 10.0.0.2, 10.1.0.0/24 a1 from 10.1.0.2, "+
		"172.16.0.0/12 a0, 172.18.0.0/16 a1, 192.0.2.0/24, 198.51.100.1/32 a1 from 10.0.0.2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, network := range []string{"172.19.0.0/16", "172.18.7.0/24", "192.0.2.7/32", "10.0.0.0/8", "198.19.0.0/16"} {
		some, others := waysTo(t, node, network), 0
		for _, way := range all {
			to, _, _ := strings.Cut(way, " ")
			overlaps := netip.MustParsePrefix(to).Overlaps(netip.MustParsePrefix(network))
			if there := slices.Contains(some, way); overlaps && !there {
				t.Errorf("%s is not among the ways for %s: %q", way, network, some)
			} else if there && !overlaps {
				others++
			}
		}
		if text := strings.Join(some, " "); others > 2 || !strings.Contains(text, " a0") || !strings.Contains(text, " a1") {
			t.Errorf("ways for %s: %q, wanted a0, a1, and no more than one to elsewhere by each", network, some)
		}
	}
}

// waysTo returns a node's ways with the names of their interfaces, sorted.
func waysTo(t *testing.T, node *netnstest.NS, network string) (got []string) {
	t.Helper()
	in(t, node, func(c *snapshot.Conn) error {
		list, err := c.List()
		if err != nil {
			return err
		}
		ways, err := c.Ways(netip.MustParsePrefix(network))
		for _, w := range ways {
			text := w.To.String()
			for _, index := range w.Interfaces {
				i := slices.IndexFunc(list, func(i link.Interface) bool { return i.Index == index })
				text += " " + list[i].Name
			}
			if w.Source.IsValid() {
				text += " from " + w.Source.String()
			}
			got = append(got, text)
		}
		return err
	})
	slices.Sort(got)
	return got
}
