package inspect

import (
	"slices"
	"testing"
)

func TestServicesThatAreBoundToAnInterfaceAreFoundByItsUnit(t *testing.T) {
	const shown = `Id=sys-subsystem-net-devices-ib0.device
BoundBy=ifup@ib0.service site-monitor.service some.mount

Id=sys-subsystem-net-devices-roce0.device
BoundBy=

BoundBy=other.service
Id=sys-subsystem-net-devices-en\x2dp1.9.device
`
	got := boundBy(shown, []string{"roce0", "ib0", "en-p1.9"})
	want := []BoundUnit{{Interface: "ib0", Unit: "ifup@ib0.service"}, {Interface: "ib0", Unit: "site-monitor.service"}, {Interface: "en-p1.9", Unit: "other.service"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
