package invariant

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestALeaseOfDevicesAloneIsUndoneAfterAKillAnywhere(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"\n[access]\nisolation = \"devices\"\n")
	killedAnywhere(t)
}

// killedAnywhere kills a prolog and an epilog at each moment and has the next epilog restore the node.
func killedAnywhere(t *testing.T) {
	t.Helper()
	before := vm.Picture(t)
	for _, m := range vm.Moments(t, "prolog", invariantJob) {
		vm.Must(t, "epilog", vm.InvariantJob)
		vm.Same(t, before)
		vm.KillAt(t, "prolog", invariantJob, m)
	}
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Must(t, "prolog", vm.InvariantJob)
	for _, m := range vm.Moments(t, "epilog", invariantJob) {
		vm.Must(t, "prolog", vm.InvariantJob)
		vm.KillAt(t, "epilog", invariantJob, m)
		vm.Must(t, "epilog", vm.InvariantJob)
		vm.Same(t, before)
	}
}
