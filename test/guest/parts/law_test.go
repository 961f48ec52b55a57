package parts

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestAKillAnywhereLosesNothingOfVFsAndTheirPF(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.VF)
	listed(t)
	vm.Run(t, "ip link set "+roceLink+" vf 2 vlan 100 qos 3 spoofchk on trust on")
	before := vm.Picture(t)
	vm.Must(t, "prolog", vfJob)
	epilog := vm.Moments(t, "epilog", vfJob)
	prolog := vm.Moments(t, "prolog", vfJob)
	vm.Must(t, "epilog", vfJob)
	for _, m := range prolog {
		vm.KillAt(t, "prolog", vfJob, m)
		vm.Must(t, "epilog", vfJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 of the prolog %s", m)
		}
	}
	for _, m := range epilog {
		vm.Must(t, "prolog", vfJob)
		vm.KillAt(t, "epilog", vfJob, m)
		vm.Must(t, "epilog", vfJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 of the epilog %s", m)
		}
	}
	t.Logf("%d kills", len(prolog)+len(epilog))
}
