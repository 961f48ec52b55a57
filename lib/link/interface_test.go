package link

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

func TestACarrierIsWaitedForUntilTheKernelHasDoneWhatFollowsFromIt(t *testing.T) {
	const up, carrier = unix.IFF_UP, unix.IFF_UP | unix.IFF_LOWER_UP
	// States of linux/if.h: unknown 0, down 2, lower layer down 3, testing 4, dormant 5, up 6.
	for _, tt := range []struct {
		flags uint32
		state byte
		lacks bool
	}{
		{up, 2, true}, {up, 0, true},
		{carrier, 2, true}, {carrier, 3, true},
		{carrier, 0, false}, {carrier, 4, false}, {carrier, 5, false}, {carrier, 6, false},
		{0, 2, false},
	} {
		m := make([]byte, unix.SizeofIfInfomsg)
		native.PutUint32(m[8:], tt.flags)
		i, err := decode(netlink.Append(m, unix.IFLA_OPERSTATE, []byte{tt.state}))
		if err != nil {
			t.Fatal(err)
		}
		if got := new(Conn).LacksCarrier(i, Own{Up: true, Running: true}); got != tt.lacks {
			t.Errorf("flags %#x, state %d: lacks the carrier: %v", tt.flags, tt.state, got)
		}
	}
}
