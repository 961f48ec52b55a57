package law

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestALeaseWithAWayOutIsUndoneAfterAKillAnywhere(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.NoDeadline(t)
	vm.Run(t, `printf '\n[uplink]\nkind = "auto"\n' >>/etc/gresnet/gresnet.toml`)
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
