package snapshot_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// What is asked for several interfaces at once is what is asked for each alone, whatever their routes,
// addresses, neighbours and next hop objects are.
func TestInterfacesThatAreReadTogetherHaveWhatEachHasAlone(t *testing.T) {
	netnstest.Slow(t)
	for _, shape := range []struct{ name, commands string }{
		{"plain", ""},
		{"over several", `ip route add 172.18.0.0/16 nexthop via 10.0.0.9 dev hca0 nexthop via 10.1.0.9 dev other nexthop via 10.0.0.8 dev hca0
ip -6 route add fd05::/64 nexthop via fd00::9 dev hca0 nexthop via fd01::9 dev other
ip route add 172.19.0.0/16 via 10.0.0.9 dev hca0 table 700; ip route add 172.20.0.0/16 via 10.1.0.9 dev other src 10.0.0.2`},
		{"by objects", `ip nexthop add id 7 via 10.0.0.9 dev hca0; ip nexthop add id 8 via 10.1.0.9 dev other; ip nexthop add id 9 group 7/8
ip route add 172.21.0.0/16 nhid 7; ip route add 172.22.0.0/16 nhid 9; ip -6 nexthop add id 10 via fd00::9 dev hca0; ip -6 route add fd06::/64 nhid 10`},
		{"by objects that routes name alone", `sysctl -qw net.ipv4.nexthop_compat_mode=0; ip nexthop add id 7 via 10.0.0.9 dev hca0; ip nexthop add id 8 via 10.1.0.9 dev other; ip nexthop add id 9 group 7/8
ip route add 172.21.0.0/16 nhid 7; ip route add 172.22.0.0/16 nhid 9; ip -6 nexthop add id 10 via fd00::9 dev hca0; ip -6 route add fd06::/64 nhid 10`},
		{"proxies and neighbours", `ip neigh add proxy 10.0.0.77 dev hca0; ip -6 neigh add proxy fd00::77 dev other; ip neigh add 10.0.0.5 lladdr 02:00:00:00:00:05 dev hca0 nud permanent
ip neigh add 10.1.0.5 lladdr 02:00:00:00:00:06 dev other nud permanent; ip link add mv0 link hca0 type macvlan; ip link set mv0 up; ip addr add 10.3.0.1/24 dev mv0`},
		{"in a VRF", `ip link add red type vrf table 100 && ip link set red up && ip link set other master red || true`},
	} {
		t.Run(shape.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run(other + "\n" + shape.commands)
			settle(b.node)
			in(t, b.node, func(c *snapshot.Conn) error {
				indices := []int{find(t, c, "hca0").Index, find(t, c, "other").Index}
				look := func() (texts []string, err error) {
					for _, i := range indices {
						s, err := c.Settings(i)
						if err != nil {
							texts = append(texts, err.Error())
							continue
						}
						s.Taken = 0
						for i := range s.Children {
							s.Children[i].Settings.Taken = 0
						}
						text, err := json.Marshal(s)
						if err != nil {
							return nil, err
						}
						texts = append(texts, string(text))
					}
					return texts, nil
				}
				alone, err := look()
				if err != nil {
					return err
				}
				asked := c.Asked()
				return c.Once(func() error {
					c.About(indices...)
					together, err := look()
					if fmt.Sprint(alone) != fmt.Sprint(together) {
						t.Errorf("alone\n%s\ntogether\n%s", alone, together)
					}
					if n := c.Asked() - asked; shape.name == "plain" && n > 20 {
						t.Errorf("%d requests for both", n)
					}
					return err
				})
			})
		})
	}
}
