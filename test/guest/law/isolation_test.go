package law

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestALeaseOfDevicesAloneIsUndoneAfterAKillAnywhere(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, `printf '\n[access]\nisolation = "devices"\n' >>/etc/gresnet/gresnet.toml`)
	before := vm.Picture(t)
	for _, m := range moments(t, "prolog") {
		vm.Must(t, "epilog", vm.LawJob)
		vm.Same(t, before)
		killAt(t, "prolog", m)
	}
	vm.Must(t, "epilog", vm.LawJob)
	vm.Must(t, "prolog", vm.LawJob)
	for _, m := range moments(t, "epilog") {
		vm.Must(t, "prolog", vm.LawJob)
		killAt(t, "epilog", m)
		vm.Must(t, "epilog", vm.LawJob)
		vm.Same(t, before)
	}
}
