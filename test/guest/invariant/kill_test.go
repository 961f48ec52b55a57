package invariant

import (
	"testing"

	"gresnet/test/guest/vm"
)

// invariantJob is a job as Slurm has one: it has nodes, and so an overlay.
const invariantJob = vm.InvariantJob + " SLURM_NODELIST=node1"

func TestAPrologThatIsKilledAnywhereIsUndoneByTheEpilog(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	all := vm.Moments(t, "prolog", invariantJob)
	vm.Must(t, "epilog", invariantJob)
	for _, m := range all {
		vm.KillAt(t, "prolog", invariantJob, m)
		vm.Must(t, "epilog", invariantJob)
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
	vm.Must(t, "prolog", invariantJob)
	all := vm.Moments(t, "epilog", invariantJob)
	for _, m := range all {
		vm.Must(t, "prolog", invariantJob)
		vm.KillAt(t, "epilog", invariantJob, m)
		vm.Must(t, "epilog", invariantJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 %s", m)
		}
	}
	t.Logf("%d kills of the epilog", len(all))
}
