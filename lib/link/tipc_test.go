package link

import (
	"slices"
	"testing"

	"gresnet/lib/kernel/netlink"
)

// The unit tests' kernel has no TIPC. In the VM, test/guest/lease asks a real one.
func TestABearerOfUDPIsOnNoInterface(t *testing.T) {
	answer := func(text string) []byte {
		return netlink.Append([]byte{tipcBearerGet, tipcVersion, 0, 0}, tipcBearer, netlink.AppendText(nil, tipcBearerName, text))
	}
	names, err := bearersIn([][]byte{answer("eth:roce0"), answer("udp:uplink"), answer("ib:ib0"), nil, {1}})
	if err != nil || !slices.Equal(names, []string{"roce0", "ib0"}) {
		t.Errorf("%q, %v", names, err)
	}
}
