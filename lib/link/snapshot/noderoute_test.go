package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	"gresnet/lib/link/snapshot"
)

// The comparison dumps all routes only where one was noted that has its source from the interface.
func TestARouteFromAnAddressIsMissedIfItWasNotedAndIsNobodysIfNot(t *testing.T) {
	const with = "172.16.0.0/16 via 10.1.0.9 dev other src 10.0.0.2"
	b := newBed(t)
	b.node.Run(other)
	settle(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		differs := func(s snapshot.Settings, name string) bool {
			t.Helper()
			diff, err := c.Differences(index, s)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(diff, func(d string) bool { return strings.Contains(d, name) })
		}
		none, err := c.Settings(index)
		if err != nil {
			return err
		}
		b.node.Run("ip route add " + with)
		if differs(none, "172.16.0.0") {
			t.Error("a route that another has made since is a difference")
		}
		one, err := c.Settings(index)
		if err != nil {
			return err
		}
		if differs(one, "172.16.0.0") {
			t.Error("a route that is there is a difference")
		}
		b.node.Run("ip route del " + with)
		if !differs(one, "172.16.0.0") {
			t.Error("a noted route that is gone is no difference")
		}
		return nil
	})
}
