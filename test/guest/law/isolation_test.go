package law

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
	for _, m := range vm.Moments(t, "prolog", lawJob) {
		vm.Must(t, "epilog", vm.LawJob)
		vm.Same(t, before)
		vm.KillAt(t, "prolog", lawJob, m)
	}
	vm.Must(t, "epilog", vm.LawJob)
	vm.Must(t, "prolog", vm.LawJob)
	for _, m := range vm.Moments(t, "epilog", lawJob) {
		vm.Must(t, "prolog", vm.LawJob)
		vm.KillAt(t, "epilog", lawJob, m)
		vm.Must(t, "epilog", vm.LawJob)
		vm.Same(t, before)
	}
}
