package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// A move empties the tables that the kernel keeps of DCB, and leaves the driver's alone.
func TestWhatIsSetOfDataCenterBridgingIsTheJobsAndIsReturned(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	link := linkOf(t, names[len(names)-1])
	vm.Run(t, strings.ReplaceAll("dcb app add dev N dscp-prio 26:3 46:5 ethtype-prio 0x8915:4 default-prio 1; dcb pfc set dev N prio-pfc 3:on", "N", link))
	t.Cleanup(func() {
		vm.Run(t, strings.ReplaceAll("dcb app flush dev N; dcb pfc set dev N prio-pfc 3:off", "N", link))
	})
	const look = "dcb app show dev "
	has := vm.Run(t, look+link)
	for _, want := range []string{"default-prio 1", "AF31:3 EF:5", "8915:4"} {
		if !strings.Contains(has, want) {
			t.Fatalf("it has not %q:\n%s", want, has)
		}
	}
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.InvariantJob)
	if inJob := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900030/netns "+look+link); inJob != has {
		t.Errorf("in the job it has\n%s\nand had\n%s", inJob, has)
	}
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)

	vm.Must(t, "prolog", vm.InvariantJob)
	vm.Run(t, "nsenter --net=/run/gresnet/jobs/900030/netns dcb app replace dev "+link+" dscp-prio 26:6")
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)
}
