package tc

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// No driver of the unit tests' kernel, nor of the VM's, does filters in hardware.
func TestATrafficFilterThatHardwareDoesIsToldApart(t *testing.T) {
	action := func(number uint32) []byte {
		parms := make([]byte, mirredSize)
		native.PutUint32(parms, number)
		a := netlink.Append(nil, actionKind, []byte("mirred\x00"))
		return netlink.Append(a, actionOptions, netlink.Append(nil, mirredParms, parms))
	}
	filter := func(kind string, act, flags uint16, value uint32, number uint32) netlink.Attributes {
		options := netlink.Append(nil, act|unix.NLA_F_NESTED, netlink.Append(nil, 1, action(number)))
		options = netlink.AppendUint32(options, flags, value)
		m := netlink.Append(nil, unix.TCA_KIND, []byte(kind+"\x00"))
		return netlink.Append(m, unix.TCA_OPTIONS|unix.NLA_F_NESTED, options)
	}
	const skipHW, inHW, notInHW = 1, 4, 8
	for _, c := range []struct {
		what   string
		filter netlink.Attributes
		want   bool
	}{
		{what: "flower", filter: filter("flower", 3, 22, inHW, 7), want: true},
		{what: "matchall", filter: filter("matchall", 2, 3, inHW, 7), want: true},
		{what: "u32", filter: filter("u32", 7, 11, inHW, 7), want: true},
		{what: "bpf", filter: filter("bpf", 1, 9, inHW, 7), want: true},
		{what: "in software", filter: filter("flower", 3, 22, notInHW|skipHW, 7), want: false},
		{what: "another action", filter: filter("flower", 3, 22, inHW, 8), want: false},
		{what: "a kind that hardware cannot do", filter: filter("basic", 3, 22, inHW, 7), want: false},
		{what: "nothing", filter: nil, want: false},
	} {
		if number, is := offloaded(c.filter, []uint32{6, 7}); is != c.want || is && number != 7 {
			t.Errorf("%s: action %d, %t", c.what, number, is)
		}
	}
}
