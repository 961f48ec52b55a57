package tc

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

func TestPrioritiesThatFirmwareManagesAreItsOwn(t *testing.T) {
	ieee := netlink.Append(nil, attrApp, netlink.Append(nil, 1, []byte{5, 3, 26, 0}))
	for mode, want := range map[byte]int{0x09: 1, 0x18: 0} { // the host's, firmware's
		answer := netlink.Append(netlink.Append(request(ieeeGet, "hca0"), attrIEEE, ieee), attrMode, []byte{mode})
		if all, err := parse(answer); err != nil || len(all) != want {
			t.Errorf("in DCBX mode %#x there are %x, %v, wanted %d", mode, all, err, want)
		}
	}
}

// FuzzPriorities holds what the kernel says of data center bridging to what restoring
// relies on: the entries that were read are all in the request that restores them.
func FuzzPriorities(f *testing.F) {
	app := netlink.Append(nil, 1, []byte{5, 3, 26, 0})
	app = netlink.Append(app, 1, []byte{1, 1, 0, 0})
	ieee := netlink.Append(netlink.Append(nil, attrApp|unix.NLA_F_NESTED, app), attrRewrite, netlink.Append(nil, 1, []byte{5, 2, 10, 0}))
	answer := netlink.Append(request(ieeeGet, "hca0"), attrIEEE, ieee)
	byFirmware := netlink.Append(answer[:len(answer):len(answer)], attrMode, []byte{managed})
	for _, seed := range [][]byte{answer, byFirmware, nil, {0, 0, 0, 0, 3, 0, 0, 0}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		all, err := parse(answer)
		if err != nil {
			return
		}
		for _, m := range all {
			_ = m.String()
		}
		again, err := parse(netlink.Append(request(ieeeSet, "hca0"), attrIEEE, tablesOf(all)))
		if err != nil || len(again) != len(all) || len(netlink.Missing(all, again, netlink.Key)) > 0 {
			t.Errorf("%x are sent back as %x, %v", all, again, err)
		}
	})
}
