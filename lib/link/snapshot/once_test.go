package snapshot_test

import (
	"testing"

	"gresnet/lib/link/snapshot"
)

// Two interfaces, with a rule, a child and a route that borrows an address, looked at
// one after the other, take fewer requests than twice one; and are seen as they are.
func TestWhatIsTheWholeNodesIsAskedOnce(t *testing.T) {
	b := newBed(t)
	b.node.Run(other + `
ip rule add from 10.0.0.2 table 100 pref 100; ip rule add iif other table 100 pref 200
ip link add mv0 link hca0 type macvlan mode bridge
ip route add 172.16.0.0/16 via 10.1.0.9 dev other src 10.0.0.2`)
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		look := func() (first, second snapshot.Settings, err error) {
			if first, err = c.Settings(find(t, c, "hca0").Index); err != nil {
				return
			}
			second, err = c.Settings(find(t, c, "other").Index)
			return
		}
		one, two, err := look()
		if err != nil {
			return err
		}
		apart := c.Asked()
		err = c.Once(func() error {
			first, second, err := look()
			if err != nil {
				return err
			}
			if len(first.Rules) != 1 || len(second.Rules) != 1 || len(first.Children) != 1 || len(first.NodeRoutes) != 1 {
				t.Errorf("hca0 has %d rules, %d children, %d borrowed routes, other %d rules", len(first.Rules), len(first.Children), len(first.NodeRoutes), len(second.Rules))
			}
			for i, s := range []snapshot.Settings{one, two} {
				if got := throughJSON(t, []snapshot.Settings{first, second}[i]); len(got.Addresses) != len(s.Addresses) || len(got.Routes) != len(s.Routes) {
					t.Errorf("%s has %d addresses and %d routes, asked apart %d and %d", s.Name, len(got.Addresses), len(got.Routes), len(s.Addresses), len(s.Routes))
				}
			}
			return nil
		})
		if together := c.Asked() - apart; together > apart-6 {
			t.Errorf("%d requests together, %d apart", together, apart)
		}
		return err
	})
}

func TestWhatIsRestoredIsLookedAtAgain(t *testing.T) {
	b := newBed(t)
	b.node.Run(other + "\nip rule add from 10.0.0.2 table 100 pref 100")
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0").Index
		want, err := c.Settings(i)
		if err != nil {
			return err
		}
		b.node.Run("ip rule del pref 100; ip -6 addr add fd00::9/64 dev hca0")
		return c.Once(func() error {
			if diff, err := c.Differences(i, want); err != nil || len(diff) == 0 {
				t.Errorf("differences are %q, %v", diff, err)
			}
			if err := apply(c, i, want, snapshot.Settled); err != nil {
				return err
			}
			diff, err := c.Differences(i, want)
			if len(diff) > 0 {
				t.Errorf("after it was restored: %q", diff)
			}
			return err
		})
	})
}
