package link

import (
	"testing"

	"gresnet/lib/netlink"
)

func TestPrioritiesThatFirmwareManagesAreItsOwn(t *testing.T) {
	ieee := netlink.Append(nil, dcbApp, netlink.Append(nil, 1, []byte{5, 3, 26, 0}))
	for mode, want := range map[byte]int{0x09: 1, 0x18: 0} { // the host's, firmware's
		answer := netlink.Append(netlink.Append(dcbRequest(dcbIEEEGet, "hca0"), dcbIEEE, ieee), dcbMode, []byte{mode})
		if all, err := readPriorities(answer); err != nil || len(all) != want {
			t.Errorf("in DCBX mode %#x there are %x, %v, wanted %d", mode, all, err, want)
		}
	}
}
