package link

import "testing"

func TestPrioritiesThatFirmwareManagesAreItsOwn(t *testing.T) {
	ieee := attribute(nil, dcbApp, attribute(nil, 1, []byte{5, 3, 26, 0}))
	for mode, want := range map[byte]int{0x09: 1, 0x18: 0} { // the host's, firmware's
		answer := attribute(attribute(dcbRequest(dcbIEEEGet, "hca0"), dcbIEEE, ieee), dcbMode, []byte{mode})
		if all, err := readPriorities(answer); err != nil || len(all) != want {
			t.Errorf("in DCBX mode %#x there are %x, %v, wanted %d", mode, all, err, want)
		}
	}
}
