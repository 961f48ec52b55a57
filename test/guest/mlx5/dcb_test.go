package mlx5

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// TestAPortNoLongerTrustsDSCPOnceItsPrioritiesAreDeleted: mlx5's driver has a port trust DSCP while there are priorities
// by DSCP, and counts them by requests alone (en_dcbnl.c:mlx5e_dcbnl_ieee_setapp). A move empties the kernel's table
// without any.
func TestAPortNoLongerTrustsDSCPOnceItsPrioritiesAreDeleted(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.MLX5)
	h := begin(t)[0]
	trusts := func() bool { return strings.HasSuffix(register(t, 0, "QPTS"), "2") } // 1 is PCP, MLX5_QPTS_TRUST_PCP
	vm.Run(t, "dcb app add dev "+h.net+" dscp-prio 26:3 46:5")
	if !trusts() {
		t.Fatal("the port does not trust DSCP")
	}
	before := vm.Run(t, "dcb app show dev "+h.net)
	vm.Must(t, "prolog", first)
	if in := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900201/netns dcb app show dev "+h.net); in != before || !trusts() {
		t.Errorf("in the job there are\n%sfor\n%s", in, before)
	}
	vm.Must(t, "epilog", first)
	if after := vm.Run(t, "dcb app show dev "+h.net); after != before || !trusts() {
		t.Errorf("after the job there are\n%sfor\n%s", after, before)
	}
	vm.Run(t, "dcb app del dev "+h.net+" dscp-prio 26:3 46:5")
	if trusts() {
		t.Errorf("without priorities the port still trusts DSCP: %s", register(t, 0, "QPTS"))
	}
}
