package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// An output of the VM's: a test that passes with a subtest, one that is skipped, one that
// fails, and one that had no end when the VM died.
const output = `@@ booted
=== RUN   TestPasses
=== RUN   TestPasses/a_part
--- PASS: TestPasses (1.00s)
    --- PASS: TestPasses/a_part (0.50s)
=== RUN   TestIsSkipped
    x_test.go:7: needs what is not here
--- SKIP: TestIsSkipped (0.00s)
=== RUN   TestFails
    x_test.go:9: a reason
--- FAIL: TestFails (2.00s)
=== RUN   TestHasNoEnd
    x_test.go:11: on its way
`

func streamed(t *testing.T, text string, wanted []string, err error) *run {
	t.Helper()
	r := &run{ctx: context.Background(), out: io.Discard, skipped: map[string]int{}}
	s := newStream(r, "a lane", wanted)
	s.lines(strings.NewReader(text))
	s.end(err)
	return r
}

func names(r *run) string {
	var all []string
	for _, f := range r.failed {
		all = append(all, f.name+" ("+strings.TrimSpace(f.log[len(f.log)-1])+")")
	}
	return strings.Join(all, "; ")
}

func TestEachResultCountsOnceAndWhatHasNoneIsAFailure(t *testing.T) {
	wanted := []string{"TestPasses", "TestIsSkipped", "TestFails", "TestHasNoEnd"}
	r := streamed(t, output, wanted, errors.New("exit status 125"))
	if r.passed != 1 || r.skipped["needs what is not here"] != 1 || len(r.skipped) != 1 {
		t.Errorf("%d passed, skipped are %v", r.passed, r.skipped)
	}
	const want = "a lane: TestFails (x_test.go:9: a reason); a lane: TestHasNoEnd has no result (x_test.go:11: on its way)"
	if got := names(r); got != want {
		t.Errorf("failed are %s, wanted %s", got, want)
	}
}

// Cut anywhere, the output of a run that passes must not pass: the VM died there.
func TestAnOutputThatIsCutOffIsAFailure(t *testing.T) {
	const whole = "=== RUN   TestA\n--- PASS: TestA (1.00s)\n=== RUN   TestB\n--- PASS: TestB (1.00s)\nPASS\n"
	for end := range strings.Index(whole, "\nPASS\n") {
		if r := streamed(t, whole[:end], []string{"TestA", "TestB"}, nil); len(r.failed) == 0 {
			t.Errorf("nothing failed after %q", whole[:end])
		}
	}
	if r := streamed(t, whole, []string{"TestA", "TestB"}, nil); len(r.failed) > 0 || r.passed != 2 {
		t.Errorf("of the whole output %s failed, %d passed", names(r), r.passed)
	}
}

func TestAProgramThatFailsWithoutAFailedTestIsAFailure(t *testing.T) {
	r := &run{ctx: context.Background(), out: io.Discard, skipped: map[string]int{}}
	newStream(r, "a lane", nil).read(exec.Command("sh", "-c", "echo the reason; exit 3"))
	if got := names(r); got != "a lane: exit status 3 (the reason)" {
		t.Errorf("failed are %q", got)
	}
}

func TestARunThatIsEndedIsAFailure(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	end()
	r := &run{ctx: ctx, out: io.Discard, skipped: map[string]int{}, jobs: 1}
	r.guests([]job{{}})
	if len(r.failed) != 1 || r.report() != "tests: 0 passed, 1 failed, 0 skipped" {
		t.Errorf("failed are %q", names(r))
	}
}

func TestWhatAStoppedProcessorKeptFromRunningRunsOnceMoreAndOnlyOnce(t *testing.T) {
	const died = "=== RUN   TestA\n--- PASS: TestA (1.00s)\n=== RUN   TestB\n" + stoodStill + " for two minutes\n"
	for _, spare := range []bool{true, false} {
		r := &run{ctx: context.Background(), out: io.Discard, skipped: map[string]int{}}
		s := newStream(r, "a lane", []string{"TestA", "TestB", "TestC"})
		s.spare = spare
		s.lines(strings.NewReader(died))
		s.end(errors.New("exit status 125"))
		if s.again() != spare || len(s.missing) != 2 || s.missing["TestA"] {
			t.Errorf("spare %v: again is %v, missing are %v", spare, s.again(), s.missing)
		}
		if failed := len(r.failed) > 0; failed == spare {
			t.Errorf("spare %v: failed are %s", spare, names(r))
		}
	}
	// A VM that died of anything else has no second one.
	r := streamed(t, strings.ReplaceAll(died, stoodStill, "vm: the guest died"), []string{"TestA", "TestB"}, errors.New("exit status 125"))
	if len(r.failed) == 0 {
		t.Error("a guest that died is no failure")
	}
}
