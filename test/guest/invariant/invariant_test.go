package invariant

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// actionsOf runs a program once and tells at which of its actions one is to fail: a few
// for the short tests; for the long ones each line of the journal and the action that
// follows it; with GRESNET_TEST=all every one. Go may deal its work to threads in another
// way the next time, and the n-th call not come: then the next action of a group is tried.
func actionsOf(t *testing.T, program, job string) [][]vm.Action {
	t.Helper()
	if out, code := vm.Traced(t, program, job, ""); code != 0 {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
	log, err := os.ReadFile(vm.TraceFile)
	if err != nil {
		t.Fatal(err)
	}
	return pick(t, vm.Calls(log))
}

// pick picks the groups of actions. A test disturbs one of them.
func pick(t *testing.T, all []vm.Action) (groups [][]vm.Action) {
	t.Helper()
	if len(all) < 20 {
		t.Fatalf("only %d actions: %v", len(all), all)
	}
	switch os.Getenv("GRESNET_TEST") {
	case "all":
		return alone(all)
	case "long":
		return alone(atEntries(t, all))
	}
	const some, tries = 6, 8
	for i := range some {
		first := i * len(all) / some
		groups = append(groups, all[first:min(first+tries, len(all))])
	}
	return groups
}

// alone returns groups of one action, which is tried three times.
func alone(all []vm.Action) (groups [][]vm.Action) {
	for _, d := range all {
		groups = append(groups, []vm.Action{d, d, d})
	}
	return groups
}

// atEntries returns the actions that write the journal, each with what is done next.
func atEntries(t *testing.T, all []vm.Action) (part []vm.Action) {
	t.Helper()
	for i, d := range all {
		if d.Entry || i > 0 && all[i-1].Entry {
			part = append(part, d)
		}
	}
	if len(part) < 10 {
		t.Fatalf("only %d of %d actions have to do with the journal", len(part), len(all))
	}
	return part
}

func TestAPrologOfWhichAnyOneActionFailsUndoesItself(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.NoDeadline(t)
	before := vm.Picture(t)
	// The first prolog after the boot asks more than later ones.
	vm.Must(t, "prolog", invariantJob)
	vm.Must(t, "epilog", invariantJob)
	groups := actionsOf(t, "prolog", invariantJob)
	vm.Must(t, "epilog", invariantJob)
	faults := 0
	for _, group := range groups {
		if slices.ContainsFunc(group, func(d vm.Action) bool { return disturbed(t, d, before) }) {
			faults++
		}
	}
	if faults*2 < len(groups) {
		t.Errorf("only %d of %d runs were disturbed", faults, len(groups))
	}
	t.Logf("%d faults", faults)
}

// disturbed runs a prolog and an epilog, and tells whether an action of the prolog was made to fail.
func disturbed(t *testing.T, d vm.Action, before string) bool {
	t.Helper()
	out, code := vm.Traced(t, "prolog", invariantJob, fmt.Sprintf("-e inject=%s:error=EIO:when=%d", d.Call, d.N))
	log, err := os.ReadFile(vm.TraceFile)
	if err != nil {
		t.Fatal(err)
	}
	switch lines := strings.Split(strings.TrimSpace(out), "\n"); {
	case runtimesOwn(log):
	case code == 1 && (len(lines) != 2 || !strings.Contains(lines[1], ": hint: ")):
		t.Errorf("wanted one line and its hint:\n%s", out)
	case code == 1:
		vm.Same(t, before)
	case code != 0:
		t.Errorf("exit %d: %s", code, out)
	}
	vm.Must(t, "epilog", invariantJob)
	if vm.Same(t, before); t.Failed() {
		t.Fatalf("with a fault at %s:\n%s", d, log)
	}
	return strings.Contains(string(log), "(INJECTED)")
}

// runtimesOwn tells that the fault has met the write by which the Go runtime wakes
// its own threads. No kernel fails that, and a runtime that cannot do so ends on the
// spot, which then is one more kill.
func runtimesOwn(log []byte) bool {
	return regexp.MustCompile(`write\(\d+, "\\1(\\0){7}", 8\) += -1 EIO .*INJECTED`).Match(log)
}

func TestTheProgramsAreSmall(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.NoDeadline(t)
	before := vm.Picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		kilobytes := vm.MaxRSS(t, program, invariantJob)
		if kilobytes > 20<<10 {
			t.Errorf("gresnet-%s took %d KiB of memory at its peak, wanted at most 20 MiB", program, kilobytes)
		}
	}
	vm.Same(t, before)
}
