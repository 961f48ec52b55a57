package snapshot_test

import (
	"fmt"
	"testing"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// A lease may have both, and an interface that is made again, as IPoIB's are, has another index.
func TestWhatTwoInterfacesShareComesBackWithBothWhateverTheirIndicesAre(t *testing.T) {
	b := newBed(t)
	b.node.Run("sysctl -qw net.ipv6.conf.hca0.accept_dad=0 net.ipv6.conf.default.accept_dad=0\n" + other + `
ip link set otherfar netns ` + b.far.Path + `; nsenter --net=` + b.far.Path + ` ip link set otherfar up
ip route add 10.9.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev other weight 3
ip -6 route add fd09::/64 nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev other
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 via 10.1.0.1 dev other; ip nexthop add id 9 group 7/8; ip route add 10.10.0.0/16 nhid 9
ip route add 10.11.0.0/16 via 10.0.0.1 dev hca0 src 10.1.0.2; ip route add 10.12.0.0/16 via 10.1.0.1 dev other src 10.0.0.2`)
	settle(b.node)
	before := rest(b.node)
	names := []string{"hca0", "other"}
	settings := map[string]snapshot.Settings{}
	var taken []int
	in(t, b.node, func(c *snapshot.Conn) (err error) {
		for _, name := range names {
			if settings[name], err = c.Settings(find(t, c, name).Index); err != nil {
				return err
			}
		}
		for _, name := range names {
			i := find(t, c, name)
			if err := c.Move(i.Index, b.job.FD(), name, true); err != nil {
				return err
			}
			taken = append(taken, i.Index)
		}
		return nil
	})
	for _, index := range taken {
		b.node.Run(fmt.Sprintf("ip link add index %d name taken%[1]d type veth peer name taker%[1]d", index))
	}
	in(t, b.job, func(c *snapshot.Conn) error {
		for _, name := range names {
			if err := apply(c, find(t, c, name).Index, settings[name], snapshot.InJob); err != nil {
				return err
			}
		}
		for _, name := range names {
			if err := c.Move(find(t, c, name).Index, b.node.FD(), name, false); err != nil {
				return err
			}
		}
		return nil
	})
	in(t, b.node, func(c *snapshot.Conn) error {
		for _, stage := range []snapshot.Stage{snapshot.Returned, snapshot.Settled} {
			for _, name := range names {
				if err := apply(c, find(t, c, name).Index, throughJSON(t, settings[name]), stage); err != nil {
					return err
				}
			}
		}
		for _, name := range names {
			diff, err := c.Differences(find(t, c, name).Index, settings[name])
			if err != nil || len(diff) > 0 {
				t.Errorf("Differences: %q, %v", diff, err)
			}
		}
		return nil
	})
	if diff := netnstest.Diff(before, rest(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}
