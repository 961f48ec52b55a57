package law

import (
	"testing"

	"gresnet/test/guest/vm"
)

// lawJob is a job as Slurm has one: it has nodes, and so an overlay.
const lawJob = vm.LawJob + " SLURM_NODELIST=node1"

func TestAPrologThatIsKilledAnywhereIsUndoneByTheEpilog(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	all := vm.Moments(t, "prolog", lawJob)
	vm.Must(t, "epilog", lawJob)
	for _, m := range all {
		vm.KillAt(t, "prolog", lawJob, m)
		vm.Must(t, "epilog", lawJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 %s", m)
		}
	}
	t.Logf("%d kills of the prolog", len(all))
}

func TestAnEpilogThatIsKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", lawJob)
	all := vm.Moments(t, "epilog", lawJob)
	for _, m := range all {
		vm.Must(t, "prolog", lawJob)
		vm.KillAt(t, "epilog", lawJob, m)
		vm.Must(t, "epilog", lawJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 %s", m)
		}
	}
	t.Logf("%d kills of the epilog", len(all))
}
