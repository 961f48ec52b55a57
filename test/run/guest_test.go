package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

func TestAVMThatWouldBeginTooLateIsSkippedWithAReasonAndIsNoFailure(t *testing.T) {
	r := &run{ctx: context.Background(), out: io.Discard, start: time.Now().Add(-time.Hour), enough: 40 * time.Minute, jobs: 1, skipped: map[string]int{}}
	r.guests([]job{{folders: []string{"invariant"}, tests: map[string][]string{"invariant": {"TestA", "TestB"}}}, {folders: []string{"lease"}, tests: map[string][]string{"lease": {"TestC"}}}})
	if r.skipped["no VM begins after 40m0s"] != 3 || len(r.skipped) != 1 || len(r.failed) != 0 || r.passed != 0 {
		t.Errorf("skipped are %v, failed %s, passed %d", r.skipped, names(r), r.passed)
	}
}

func TestAGuestOfAnotherArchitectureIsSkippedWithAReasonWhereNoEmulatorIsInstalled(t *testing.T) {
	tests := []vm.Test{{Shard: "invariant", Name: "TestA", Class: vm.Both | vm.Smoke}, {Shard: "lease", Name: "TestB", Class: vm.Both | vm.Short}}
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	count := func() (n int, r *run) {
		r = &run{out: io.Discard, what: "test-long", skipped: map[string]int{}}
		for _, j := range r.plan(tests) {
			if j.lane.Arch == "arm64" {
				n += j.count()
			}
		}
		return n, r
	}
	if n, r := count(); n != 0 || r.skipped["qemu-system-aarch64 is not installed"] != 2 || len(r.failed) != 0 {
		t.Errorf("without an emulator %d tests run, skipped are %v", n, r.skipped)
	}
	if err := os.WriteFile(folder+"/qemu-system-aarch64", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if n, r := count(); n != 2 || len(r.skipped) != 0 {
		t.Errorf("with an emulator %d tests run, skipped are %v", n, r.skipped)
	}
}

func TestTheInvariantsRunFirstAndThenWhatHasTheMostTests(t *testing.T) {
	tests := []vm.Test{
		{Shard: "access", Name: "TestA", Class: vm.Both | vm.Short},
		{Shard: "lease", Name: "TestB", Class: vm.Both | vm.Short}, {Shard: "lease", Name: "TestC", Class: vm.Both | vm.Short},
		{Shard: "invariant", Name: "TestD", Class: vm.Both | vm.Short},
	}
	var order []string
	for _, j := range (&run{out: io.Discard, what: "rest", skipped: map[string]int{}}).plan(tests) {
		order = append(order, j.folders[0])
	}
	if want := []string{"invariant", "invariant", "lease", "lease", "access", "access"}; !slices.Equal(order, want) {
		t.Errorf("the order is %s, wanted %s: each in two modes", order, want)
	}
}

func TestTheLongTestsAreLongButOnAnotherArchitecture(t *testing.T) {
	r := &run{what: "test-long"}
	for _, lane := range vm.Runs[r.what] {
		if got := r.level(lane); (got == "short") != (lane.Arch != "") {
			t.Errorf("%s: the tests are %s", lane, got)
		}
	}
}

func TestNoVMHasSoManyTestsThatAllOthersWaitForItAndEachTestRunsOnce(t *testing.T) {
	for _, n := range []int{1, most, most + 1, 3*most - 1} {
		var tests []vm.Test
		for i := range n {
			tests = append(tests, vm.Test{Shard: "lease", Name: fmt.Sprintf("Test%d", i), Class: vm.Exclusive | vm.Short})
		}
		ran := map[string]int{}
		for _, j := range (&run{out: io.Discard, what: "rest", skipped: map[string]int{}}).plan(tests) {
			if j.count() > most || j.count() < min(n, most/2) {
				t.Errorf("of %d tests a VM has %d", n, j.count())
			}
			for _, name := range j.tests["lease"] {
				ran[name]++
			}
		}
		if len(ran) != n || slices.Max(slices.Collect(maps.Values(ran))) != 1 {
			t.Errorf("of %d tests these run so often: %v", n, ran)
		}
	}
}
