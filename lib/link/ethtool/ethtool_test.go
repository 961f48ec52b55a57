package ethtool

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// FuzzEthtool holds the answers of ethtool to what restoring relies on: an interface that
// has what was read of it needs no change, and what was read is read so a second time.
func FuzzEthtool(f *testing.F) {
	head := []byte{unix.ETHTOOL_MSG_CHANNELS_GET_REPLY, unix.ETHTOOL_GENL_VERSION, 0, 0}
	channels := netlink.Append(head, unix.ETHTOOL_A_CHANNELS_RX_MAX, []byte{8, 0, 0, 0})
	channels = netlink.Append(channels, unix.ETHTOOL_A_CHANNELS_RX_COUNT, []byte{3, 0, 0, 0})
	bit := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BIT_NAME, []byte("rx-gro\x00"))
	bits := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, bit)
	set := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, bits)
	features := netlink.Append(head, unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, set)
	for _, seed := range [][]byte{channels, features, head, nil, {255, 0, 0, 0, 3, 0, 0, 0}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		list, err := netlink.Generic([][]byte{answer})
		if err != nil {
			return
		}
		if names, err := wanted(list); err == nil && !slices.IsSorted(names) {
			t.Errorf("the features %q are not in order", names)
		}
		// No answer of the kernel has one kind twice.
		once, seen := true, map[uint16]bool{}
		for a := range list.All() {
			kind := a.Type()
			once, seen[kind] = once && !seen[kind], true
		}
		for _, kind := range kinds() {
			m := kind.settable(list)
			if again, err := netlink.Parse(m); err != nil || !bytes.Equal(kind.settable(again), m) {
				t.Errorf("the %s %x are read as %x, %v", kind.name, m, again, err)
			}
			if c := changed(m, m); once && c != nil {
				t.Errorf("the %s %x are to be changed by %x to be the same", kind.name, m, c)
			}
		}
	})
}
