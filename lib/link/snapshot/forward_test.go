package snapshot_test

import (
	"fmt"
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
ip nexthop add id 7 via 10.1.0.1 dev a1; ip route add 172.18.0.0/16 nhid 7`)
	all := waysTo(t, node, "0.0.0.0/0")
	if got, want := strings.Join(all, ", "), "0.0.0.0/0 a0 a1, 10.0.0.0/24 a0, 10.1.0.0/24 a1, 172.16.0.0/12 a0, 172.18.0.0/16 a1, 192.0.2.0/24"; got != want {
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
			got = append(got, text)
		}
		return err
	})
	slices.Sort(got)
	return got
}

func TestForwardingIsSetForOneInterface(t *testing.T) {
	node := netnstest.New(t)
	node.Run("sysctl -qw net.ipv4.ip_forward=0; ip link add a0 type veth peer name a1")
	in(t, node, func(*snapshot.Conn) error {
		for _, on := range []bool{true, true, false, false} {
			if err := link.Forward("a0", on); err != nil {
				return err
			}
			var got []bool
			for _, name := range []string{"a0", "a1", link.All} {
				one, err := link.Forwards(name)
				if err != nil {
					return err
				}
				got = append(got, one)
			}
			if want := []bool{on, false, false}; !slices.Equal(got, want) {
				t.Errorf("a0, a1 and all forward: %s, want %v", fmt.Sprint(got), want)
			}
		}
		if err := link.Forward("none0", true); !link.IsGone(err) {
			t.Errorf("an interface that is not there: %v", err)
		}
		return nil
	})
}

func TestWhoAsksForLargeReceiveOffloadGivesUpNoOtherFeature(t *testing.T) {
	node := netnstest.New(t)
	node.Run("ip link add a0 type veth peer name a1")
	in(t, node, func(c *snapshot.Conn) error {
		index := find(t, c, "a0").Index
		before := featuresOf(t, c, index)
		if !slices.Contains(before, "tx-udp_tnl-segmentation") {
			t.Fatalf("its features are %q", before)
		}
		if err := c.WantLRO(index); err != nil {
			return err
		}
		after := slices.DeleteFunc(featuresOf(t, c, index), func(f string) bool { return f == "rx-lro" })
		if !slices.Equal(after, before) {
			t.Errorf("got  %q\nwant %q", after, before)
		}
		return nil
	})
}

// featuresOf returns the features that are asked for.
func featuresOf(t *testing.T, c *snapshot.Conn, index int) []string {
	t.Helper()
	s, err := c.Settings(index)
	if err == nil {
		err = c.Remade(index, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Driver.Features
}
