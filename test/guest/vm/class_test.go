package vm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// part is what a run, or CI with its two, has to show: each test of its classes, in each
// of its suites, kernels and modes.
type part struct {
	runs            []string
	suites, kernels []string
	includes        func(Class) bool
	arch            string
	mode            Class // if set, it has this alone
}

var parts = map[string]part{
	"make test":               {[]string{"test"}, suites[:1], kernels[:1], func(c Class) bool { return c&Smoke != 0 }, "", Exclusive},
	"make test-vm":            {[]string{"test-vm"}, suites[:1], kernels[:1], func(c Class) bool { return c&Long == 0 }, "", 0},
	"CI":                      {[]string{"test", "rest"}, suites[:1], kernels[:1], func(c Class) bool { return c&Long == 0 }, "", 0},
	"make test-long":          {[]string{"test-long"}, suites[:1], kernels, func(c Class) bool { return true }, "", 0},
	"make test-long on 5.10":  {[]string{"test-long"}, suites[:1], oldest, func(c Class) bool { return true }, "", 0},
	"make test-long on arm64": {[]string{"test-long"}, suites[:1], kernels[:1], func(c Class) bool { return c&Smoke != 0 }, "arm64", 0},
	"make test-matrix":        {[]string{"test-matrix"}, suites, kernels, func(c Class) bool { return c&EverySlurm != 0 }, "", 0},
}

// uncovered says where tests that have to run do not run.
func uncovered(tests []Test, runs map[string][]Lane) (all []string) {
	for name, p := range parts {
		var lanes []Lane
		for _, run := range p.runs {
			lanes = append(lanes, runs[run]...)
		}
		for _, want := range p.lanes() {
			for _, t := range tests {
				if !p.includes(t.Class) || !want.Runs(t.Class) {
					continue
				}
				runs := func(l Lane) bool {
					return l.Suite == want.Suite && l.Kernel == want.Kernel && l.Mode == want.Mode && l.Shape == want.Shape && l.Arch == p.arch && l.Runs(t.Class)
				}
				if !slices.ContainsFunc(lanes, runs) {
					all = append(all, fmt.Sprintf("%s: %s does not run in lane %s", name, t.Name, want))
				}
			}
		}
	}
	return all
}

// lanes returns all that a part may have.
func (p part) lanes() (all []Lane) {
	shapes, levels := []Class{0, PCI, VF, MLX5}, Smoke|Short
	switch {
	case len(p.kernels) > 1: // the tests that take long
		shapes, levels = []Class{0, PCI, VF, IGB, TwoNodes, Managed, MLX5, TwoMLX5, Many}, levels|Long
	case p.kernels[0] == oldest[0]:
		shapes, levels = []Class{MLX5, TwoMLX5}, levels|Long
	}
	if p.arch != "" {
		shapes = []Class{0} // QEMU has the other devices for this machine's architecture alone
	}
	all = lanes(levels, p.suites, p.kernels, shapes...)
	if p.mode != 0 {
		all = in(p.mode, all)
	}
	return all
}

func allTests(t *testing.T) []Test {
	t.Helper()
	tests, err := Tests("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) < 140 {
		t.Fatalf("only %d tests were found", len(tests))
	}
	return tests
}

func TestEveryTestRunsWhereItsClassSays(t *testing.T) {
	for _, missing := range uncovered(allTests(t), Runs) {
		t.Error(missing)
	}
}

func TestALaneThatIsTakenAwayIsMissedAndEachRunsTests(t *testing.T) {
	tests := allTests(t)
	for name, lanes := range Runs {
		for i, lane := range lanes {
			if !slices.ContainsFunc(tests, func(t Test) bool { return lane.Runs(t.Class) }) {
				t.Errorf("%s: no test is of the class of lane %s", name, lane)
			}
			fewer := maps.Clone(Runs)
			fewer[name] = slices.Delete(slices.Clone(lanes), i, i+1)
			if len(uncovered(tests, fewer)) == 0 {
				t.Errorf("%s: nobody misses lane %s", name, lane)
			}
		}
	}
}

// They matched a fragment of both lists by which tests were once dealt to the modes.
func TestTheTwoTestsThatRanNowhereRunInCI(t *testing.T) {
	tests := allTests(t)
	for _, name := range []string{"TestAnHCAWithASlowerPortIsQuarantinedWhereTheSiteWantsThat", "TestBootSetsTheModeThatTheConfigurationWants"} {
		i := slices.IndexFunc(tests, func(t Test) bool { return t.Name == name })
		if i < 0 {
			t.Fatalf("there is no %s", name)
		}
		for _, mode := range []Class{Exclusive, Shared} {
			if !slices.ContainsFunc(slices.Concat(Runs["test"], Runs["rest"]), func(l Lane) bool { return l.Mode == mode && l.Runs(tests[i].Class) }) {
				t.Errorf("%s does not run in CI, %s mode", name, modeNames[mode])
			}
		}
	}
}

func TestATestThatNoModeChangesRunsInOneModeInCIAndInBothInTheLongTests(t *testing.T) {
	for run, want := range map[string][]Class{"test-vm": {Exclusive}, "rest": {Exclusive}, "test-long": {Exclusive, Shared}, "test-matrix": {Exclusive, Shared}} {
		var modes []Class
		for _, l := range Runs[run] {
			if l.Runs(Either|Short|EverySlurm) && !slices.Contains(modes, l.Mode) {
				modes = append(modes, l.Mode)
			}
		}
		if !slices.Equal(modes, want) {
			t.Errorf("%s: it runs in the modes %v, wanted %v", run, modes, want)
		}
	}
}

func TestATestThatDeclaresNoClassIsAnErrorThatNamesIt(t *testing.T) {
	for statement, want := range map[string]string{
		"":             "it declares no class",
		"t.Parallel()": "it declares no class",
		"vm.Slurm(t); vm.Needs(t, vm.Both, vm.Short)": "it declares no class",
		"vm.Needs(t)":                                        "it names no mode",
		"vm.Needs(t, vm.Short)":                              "it names no mode",
		"vm.Needs(t, vm.Both)":                               "it names no level",
		"vm.Needs(t, vm.Both, vm.Short, vm.Long)":            "it names no level, or several",
		"vm.Needs(t, vm.Both, vm.Shrt)":                      "unknown class Shrt",
		"vm.Needs(t, vm.Both, vm.Long, vm.PCI, vm.TwoNodes)": "no VM has all of PCI TwoNodes",
		"vm.Needs(t, vm.Both, vm.Long, vm.PCI, vm.VF)":       "no VM has all of PCI VF",
	} {
		dir := t.TempDir()
		source := "package x\nfunc TestNobody(t *testing.T) { " + statement + " }\n"
		if err := os.Mkdir(filepath.Join(dir, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x", "x_test.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Tests(dir); err == nil || !strings.Contains(err.Error(), "TestNobody: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, wanted TestNobody and %q", statement, err, want)
		}
	}
}
