package law

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestALeaseWithAWayOutIsUndoneAfterAKillAnywhere(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, `printf '\n[uplink]\nkind = "auto"\n' >>/etc/gresnet/gresnet.toml`)
	killedAnywhere(t)
}
