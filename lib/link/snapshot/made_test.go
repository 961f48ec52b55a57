package snapshot_test

import (
	"testing"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// The unit tests' kernel makes one kind only, so another is said to have been there.
func TestWhatTheKernelMakesOtherwiseIsMadeAnewBesideWhatItDoesNot(t *testing.T) {
	b := newBed(t)
	b.node.Run(`ip link set hca0 up; tc qdisc add dev hca0 root handle 7: mq; tc qdisc replace dev hca0 parent 7:2 handle 20: pfifo limit 77
until ip -6 addr show dev hca0 scope link -tentative | grep -q inet6; do sleep 0.02; done`)
	before := picture(b.node)
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		want, err := c.Settings(index)
		if err != nil {
			return err
		}
		if list, err := c.MadeOtherwise(index, want); err != nil || len(list) > 0 {
			t.Errorf("made otherwise, though nothing has changed: %v, %v", list, err)
		}
		want.Made = []string{"fq"}
		list, err := c.MadeOtherwise(index, want)
		if err != nil {
			return err
		}
		const says = "hca0 has pfifo_fast for the kernel's own queueing discipline, it had fq"
		if len(list) != 1 || list[0].String() != says {
			t.Fatalf("made otherwise: %v, wanted that %s", list, says)
		}
		return c.Remake(list[0])
	})
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}
