package ports_test

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"gresnet/lib/kernel/ports"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// BenchmarkPorts shows what the network costs the first job of a node, and another one of 64 nodes.
func BenchmarkPorts(b *testing.B) {
	ns := netnstest.New(b)
	ns.Run("ip link add eth0 type veth peer name x; ip addr add 192.0.2.1/24 dev eth0; ip link set eth0 up; ip link add up-j type veth peer name y")
	n := ports.Node{Pins: cgrouptest.Pins(b) + "/gresnet/ports"}
	s := ports.Settings{
		Locals: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Services: []int{6818}, Ephemeral: ports.Block{First: 32768, Last: 60999},
		Callers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	j := ports.Job{ID: 1, Address: s.Locals[0], Block: firstBlock, Aliases: map[netip.Addr]netip.Addr{}}
	for node := range byte(64) {
		j.Aliases[netip.AddrFrom4([4]byte{192, 0, 2, node + 1})] = netip.AddrFrom4([4]byte{198, 19, 0, node + 1})
	}
	var before []ports.Before
	in := func(f func() error) {
		if err := ns.Do(f); err != nil {
			b.Fatal(err)
		}
	}
	in(func() error {
		up, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		veth, err := netlink.LinkByName("up-j")
		if err != nil {
			return err
		}
		s.Uplinks, j.Veth = []ports.Uplink{{Index: up.Attrs().Index, Address: s.Locals[0]}}, veth.Attrs().Index
		before, err = ports.Look(s)
		return err
	})
	first := func(b *testing.B) {
		for range b.N {
			in(func() error { return n.Attach(s) })
			b.StopTimer()
			in(func() error { return n.Detach(before) })
			b.StartTimer()
		}
	}
	b.Run("first", first)
	in(n.Keep)
	b.Run("first where boot has loaded the programs", first)
	in(func() error { return n.Attach(s) })
	b.Run("next", func(b *testing.B) {
		for range b.N {
			in(func() error {
				if err := n.Attach(s); err != nil {
					return err
				}
				if err := n.Confine(j.Veth); err != nil {
					return err
				}
				return n.Admit(j)
			})
			b.StopTimer()
			if err := n.Remove(j.Veth); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("end", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			if err := n.Admit(j); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := n.Remove(j.Veth); err != nil {
				b.Fatal(err)
			}
		}
	})
}
