package link_test

import (
	"testing"

	"gresnet/lib/link"
)

func TestTheInterfaceWithTheDefaultRouteIsTheUplink(t *testing.T) {
	const others = "ip link add other type veth peer name otherfar; ip link set other up; ip link set otherfar up; ip addr add 10.1.0.2/24 dev other\n"
	tests := []struct {
		name, route string
		want        bool
	}{
		{"no route", `true`, false},
		{"a route to a network", `ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0`, false},
		{"a default route of another table", `ip route add default via 10.0.0.1 dev hca0 table 100`, false},
		{"the default route", `ip route add default via 10.0.0.1 dev hca0`, true},
		{"the default route over others, too", others + `ip route add default nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev other`, true},
		{"the default route of another from an address of this", others + `ip route add default via 10.1.0.1 dev other src 10.0.0.2`, false},
		{"an IPv6 default route", `ip -6 route add default via fd00::1 dev hca0`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run("ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad\n" + tt.route)
			in(t, b.node, func(c *link.Conn) error {
				s, err := c.Settings(find(t, c, "hca0").Index)
				if got := s.IsUplink(); got != tt.want {
					t.Errorf("IsUplink is %v, wanted %v", got, tt.want)
				}
				return err
			})
		})
	}
}
