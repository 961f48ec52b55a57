package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// What others have put on an interface, or bound to it, ends with a move, and nobody but they can make
// it again.
func TestWhatOthersHaveBoundToAnInterfaceIsRefusedByName(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	roce, ib := linkOf(t, names[len(names)-1]), linkOf(t, names[0])
	for _, c := range []struct{ name, module, setup, undo, want string }{
		{"rxe", "rdma_rxe", "rdma link add rxe9 type rxe netdev ROCE; udevadm settle", "rdma link delete rxe9; modprobe -r rdma_rxe", "rxe9 stands on ROCE"},
		{"siw", "siw", "rdma link add siw9 type siw netdev ROCE; udevadm settle", "rdma link delete siw9; modprobe -r siw", "siw9 stands on ROCE"},
		{"a bearer of TIPC", "tipc", "tipc bearer enable media eth device ROCE", "tipc bearer disable media eth device ROCE; modprobe -r tipc", "TIPC has a bearer on ROCE"},
		{"a bearer of TIPC over InfiniBand", "tipc", "tipc node set identity rail0; tipc bearer enable media ib device IB", "tipc bearer disable media ib device IB; modprobe -r tipc", "TIPC has a bearer on IB"},
		{"FCoE", "fcoe", "echo ROCE >/sys/bus/fcoe/ctlr_create", "echo ROCE >/sys/bus/fcoe/ctlr_destroy; udevadm settle", " stands on ROCE"},
		{"HSR", "hsr", "ip link add other9 type veth peer name far9; ip link add hsr9 type hsr slave1 ROCE slave2 other9", "ip link del hsr9; ip link del other9; modprobe -r hsr", "hsr9 stands on ROCE"},
		{"AMT", "amt", "ip link add amt9 type amt mode gateway local 192.0.2.1 discovery 192.0.2.2 dev ROCE", "ip link del amt9; modprobe -r amt", "amt9 stands on ROCE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := vm.Try("modprobe " + c.module); err != nil {
				t.Logf("this kernel has no %s", c.module)
				return
			}
			of := strings.NewReplacer("ROCE", roce, "IB", ib)
			vm.Run(t, of.Replace(c.setup))
			t.Cleanup(func() {
				vm.Run(t, of.Replace(c.undo)+"; "+vm.ForgetTable+"; ip addr flush dev "+roce+"; "+vm.GiveAddresses)
			})
			vm.Run(t, vm.Repo()+"/bin/gresnet close")
			before := vm.Picture(t)
			if out, code := vm.ByHand(t, "prolog", refuseJob); code != 1 || !strings.Contains(out, of.Replace(c.want)) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			vm.Same(t, before)
			vm.Must(t, "epilog", refuseJob)
			vm.Same(t, before)
		})
	}
}
