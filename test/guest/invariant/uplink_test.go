package invariant

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestALeaseWithAWayOutIsUndoneAfterAKillAnywhere(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"\n[uplink]\nkind = \"auto\"\n")
	killedAnywhere(t)
}
