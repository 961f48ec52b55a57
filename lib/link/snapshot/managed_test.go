package snapshot_test

import (
	"slices"
	"testing"
	"time"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// managed is an interface with what a manager gives it and what others do.
const managed = `sysctl -qw net.ipv6.conf.hca0.accept_dad=0
ip link property add dev hca0 altname rail0; ip link set hca0 mtu 9000 up
ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 proto static; ip route add 10.8.0.0/16 via 10.0.0.1 dev hca0 proto 200
ip rule add from 10.0.0.2 table 100 pref 1000 protocol static; ip rule add iif hca0 table 101 pref 1001
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev hca0 nud permanent`

// taken waits until the kernel has taken the interface's IPv6 addresses, in a work queue of its own.
const taken = `
for a in fd00::2 $(ip -6 -o addr show dev hca0 scope link | sed 's/.*inet6 \([^/]*\).*/\1/'); do
	until ip -6 route show table local dev hca0 | grep -q "^local $a "; do sleep 0.01; done
done`

// away takes the settings of managed, and lets the interface go and come back
// without what a manager gives it; forgets is what goes besides.
func away(t *testing.T, b *bed, forgets string) (s snapshot.Settings) {
	t.Helper()
	in(t, b.node, func(c *snapshot.Conn) (err error) {
		i := find(t, c, "hca0")
		if s, err = c.Settings(i.Index); err != nil {
			return err
		}
		return c.Move(i.Index, b.job.FD(), "hca0", true)
	})
	b.node.Run(forgets)
	in(t, b.job, func(c *snapshot.Conn) error { return c.Move(find(t, c, "hca0").Index, b.node.FD(), "hca0", false) })
	in(t, b.node, func(c *snapshot.Conn) error { return apply(c, find(t, c, "hca0").Index, s, snapshot.Managed) })
	return s
}

func TestWhatAManagerGivesIsLeftToItAndTheRestRestored(t *testing.T) {
	b := newBed(t)
	b.node.Run(managed + taken)
	before := picture(b.node)
	s := away(t, b, "ip rule del pref 1000; ip rule del pref 1001")
	if has := b.node.Run("ip -o addr show dev hca0 scope global; ip route show dev hca0; ip rule show pref 1000"); has != "" {
		t.Errorf("before the manager came to it, hca0 has:\n%s", has)
	}
	b.node.Run("ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad" + taken)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0").Index
		_, diff, err := c.AcceptManaged(i, s)
		want := []string{"route 10.9.0.0/16 via 10.0.0.1 is missing", "policy rule 1000 is missing"}
		if !slices.Equal(diff, want) {
			t.Errorf("half done, what the manager gives differs by %q, wanted %q", diff, want)
		}
		return err
	})
	b.node.Run("ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0 proto static; ip rule add from 10.0.0.2 table 100 pref 1000 protocol static")
	agree(t, b, s, nil)
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("the interface is not as it was, before (-) and after (+):\n%s", diff)
	}
}

func TestWhatAManagerGivesOtherwiseThanBeforeStays(t *testing.T) {
	b := newBed(t)
	b.node.Run(managed + taken)
	s := away(t, b, "true")
	// What a fresh lease may be: shorter than the time that the interface was away.
	b.node.Run("ip addr add 10.0.7.3/24 dev hca0 valid_lft 500 preferred_lft 500; ip -6 addr add fd00::2/64 dev hca0 nodad; ip route add 10.9.0.0/16 via 10.0.7.1 dev hca0 proto static" + taken)
	s.Taken -= time.Hour
	before := picture(b.node)
	agree(t, b, s, []string{
		"address 10.0.0.2/24 is missing", "address 10.0.7.3/24 was not there",
	})
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("what the manager gave was changed, before (-) and after (+):\n%s", diff)
	}
}

// agree restores what a manager leaves, and holds the interface to it. diff are
// the first differences from what it was.
func agree(t *testing.T, b *bed, s snapshot.Settings, want []string) {
	t.Helper()
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0").Index
		agreed, diff, err := c.AcceptManaged(i, s)
		if err != nil {
			return err
		}
		if len(diff) < len(want) || !slices.Equal(diff[:len(want)], want) || want == nil && diff != nil {
			t.Errorf("the manager's differs by %q, wanted %q", diff, want)
		}
		if err := apply(c, i, agreed, snapshot.Settled); err != nil {
			return err
		}
		left, err := c.Differences(i, agreed)
		if len(left) > 0 {
			t.Errorf("after Restore: %q", left)
		}
		return err
	})
}
