package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// In exclusive mode a P_Key child goes with its RDMA device, and all that hangs on it.
func TestAPKeyChildThatCouldNotBeMadeAgainAsItIsIsRefused(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	const each = "for i in $(ls /sys/class/net | grep -E '^ib[0-9]+$'); do "
	vm.Run(t, each+"ip link add link $i name $i.8001 type ipoib pkey 0x8001; ip link set $i.8001 up; tc qdisc add dev $i.8001 clsact; done")
	t.Cleanup(func() { vm.Run(t, each+"ip link del $i.8001; done") })
	before := vm.Picture(t)
	out, code := vm.ByHand(t, "prolog", vm.InvariantJob)
	if vm.IsExclusive(t) {
		if code != 1 || !strings.Contains(out, ".8001 has queueing discipline clsact, which gresnet cannot restore") {
			t.Errorf("prolog: exit %d: %s", code, out)
		}
	} else {
		if code != 0 {
			t.Errorf("prolog: exit %d: %s", code, out)
		}
		vm.Must(t, "epilog", vm.InvariantJob)
	}
	vm.Same(t, before)
	vm.Run(t, each+"tc qdisc show dev $i.8001 | grep -q clsact; done")
}
