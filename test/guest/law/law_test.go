package law

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// deedsOf runs a program once and tells at which of its deeds one is to fail: a few
// for the short tests; for the long ones each line of the journal and the deed that
// follows it; with GRESNET_TEST=all every one.
func deedsOf(t *testing.T, program, job string) []vm.Deed {
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

// pick picks the deeds at which a test disturbs.
func pick(t *testing.T, all []vm.Deed) (part []vm.Deed) {
	t.Helper()
	if len(all) < 20 {
		t.Fatalf("only %d deeds: %v", len(all), all)
	}
	switch os.Getenv("GRESNET_TEST") {
	case "all":
		return all
	case "long":
		return atNotes(t, all)
	}
	const some = 6
	for i := range some {
		part = append(part, all[i*len(all)/some])
	}
	return part
}

// atNotes are the deeds that write the journal, each with what is done next.
func atNotes(t *testing.T, all []vm.Deed) (part []vm.Deed) {
	t.Helper()
	for i, d := range all {
		if d.Note || i > 0 && all[i-1].Note {
			part = append(part, d)
		}
	}
	if len(part) < 10 {
		t.Fatalf("only %d of %d deeds have to do with the journal", len(part), len(all))
	}
	return part
}

func TestAPrologOfWhichAnyOneDeedFailsUndoesItself(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	deeds := deedsOf(t, "prolog", vm.LawJob)
	vm.Must(t, "epilog", vm.LawJob)
	faults := 0
	for _, d := range deeds {
		out, code := vm.Traced(t, "prolog", vm.LawJob, fmt.Sprintf("-e inject=%s:error=EIO:when=%d", d.Call, d.N))
		log, err := os.ReadFile(vm.TraceFile)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "(INJECTED)") {
			faults++
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
		vm.Must(t, "epilog", vm.LawJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("with a fault at %s:\n%s", d, log)
		}
	}
	// Go may deal its work to threads in another way than before, and the n-th call never come.
	if faults*2 < len(deeds) {
		t.Errorf("only %d of %d runs were disturbed", faults, len(deeds))
	}
	t.Logf("%d faults", faults)
}

// runtimesOwn tells that the fault has met the write by which the Go runtime wakes
// its own threads. No kernel fails that, and a runtime that cannot do so ends on the
// spot, which then is one more kill.
func runtimesOwn(log []byte) bool {
	return regexp.MustCompile(`write\(\d+, "\\1(\\0){7}", 8\) += -1 EIO .*INJECTED`).Match(log)
}

func TestTheProgramsAreSmall(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		kilobytes := vm.MaxRSS(t, program, vm.LawJob)
		if kilobytes > 20<<10 {
			t.Errorf("gresnet-%s took %d KiB of memory at its peak, wanted at most 20 MiB", program, kilobytes)
		}
	}
	vm.Same(t, before)
}
