package snapshot_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// thereAndBack takes an interface into the job and back, and restores it there.
func thereAndBack(t *testing.T, b *bed) {
	t.Helper()
	s := throughJSON(t, b.take(t))
	in(t, b.job, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		if err := apply(c, i.Index, s, snapshot.InJob); err != nil {
			return err
		}
		return c.Move(i.Index, b.node.FD(), "hca0", false)
	})
	in(t, b.node, func(c *snapshot.Conn) error { return restore(t, c, find(t, c, "hca0").Index, s) })
}

// iproute2 knows how to have hardware count since 6.9, as the kernel does.
func TestThatHardwareCountsForAGroupOfNextHopsIsRestored(t *testing.T) {
	const hwStats = 16 // NHA_HW_STATS_ENABLE
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip nexthop add id 7 via 10.0.0.1 dev hca0`)
	request := func(kind, flags int, attributes []byte) (answers [][]byte) {
		t.Helper()
		err := b.node.Do(func() error {
			r, err := netlink.OpenRoute()
			if err != nil {
				return err
			}
			defer r.Close()
			answers, err = r.Send(kind, flags, unix.RTM_NEWNEXTHOP, append(make([]byte, 8), attributes...))
			return err
		})
		if errors.Is(err, unix.EINVAL) {
			netnstest.Skip(t, "needs a kernel of 6.9 or later, which has groups of next hops that hardware counts for")
		}
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	member := binary.NativeEndian.AppendUint32(nil, 7)
	group := netlink.AppendUint32(nil, unix.NHA_ID, 8)
	group = netlink.Append(group, unix.NHA_GROUP, append(member, 0, 0, 0, 0))
	request(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_ACK, netlink.AppendUint32(group, hwStats, 1))
	counted := func() bool {
		t.Helper()
		answers := request(unix.RTM_GETNEXTHOP, 0, netlink.AppendUint32(netlink.AppendUint32(nil, unix.NHA_ID, 8), 14, 1))
		if len(answers) != 1 {
			t.Fatalf("%d groups", len(answers))
		}
		list, err := netlink.Parse(answers[0][8:])
		if err != nil {
			t.Fatal(err)
		}
		return list.Number(hwStats) == 1
	}
	if !counted() {
		t.Fatal("hardware does not count")
	}
	thereAndBack(t, b)
	if !counted() {
		t.Error("hardware does not count any more")
	}
}
