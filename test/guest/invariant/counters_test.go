package invariant

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const (
	countedLines = "/var/lib/gresnet-counters/jobs.jsonl"
	// seenHCAs prints which HCA each object of the lines is about, and takes the lines away.
	seenHCAs = "touch " + countedLines + "; jq -c '.hcas[].id' " + countedLines + "; rm " + countedLines
)

// taken returns the HCAs of the lines that were written since it was called last.
func taken(t *testing.T) []string {
	t.Helper()
	return strings.Fields(vm.Run(t, seenHCAs))
}

func TestAKillAnywhereTearsNoJobsLineAndCountsNoHCATwice(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, "install -d -m 700 $(dirname "+countedLines+")")
	t.Cleanup(func() { vm.Run(t, "rm -r $(dirname "+countedLines+")") })
	vm.Run(t, `printf '\n[accounting]\nfile = "`+countedLines+`"\n' >>/etc/gresnet/gresnet.toml`)
	before := vm.Picture(t)
	prolog := vm.Moments(t, "prolog", invariantJob)
	epilog := vm.Moments(t, "epilog", invariantJob)
	whole := len(taken(t))
	if whole == 0 {
		t.Fatal("a job that nobody disturbs has no line")
	}
	lost := 0
	look := func(program string, m vm.Moment) {
		t.Helper()
		vm.Same(t, before)
		count := map[string]int{}
		for _, hca := range taken(t) {
			count[hca]++
		}
		for hca, n := range count {
			if n > 1 {
				t.Errorf("%s killed %s: the lines have %s %d times", program, m, hca, n)
			}
		}
		lost += whole - len(count)
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, m := range prolog {
		vm.KillAt(t, "prolog", invariantJob, m)
		vm.Must(t, "epilog", invariantJob)
		look("prolog", m)
	}
	t.Logf("%d kills of the prolog", len(prolog))
	lost = 0
	for _, m := range epilog {
		vm.Must(t, "prolog", invariantJob)
		vm.KillAt(t, "epilog", invariantJob, m)
		vm.Must(t, "epilog", invariantJob)
		look("epilog", m)
	}
	t.Logf("%d kills of the epilog lost the figures of %d of %d HCAs", len(epilog), lost, whole*len(epilog))
	vm.Must(t, "prolog", invariantJob)
	vm.Must(t, "epilog", invariantJob)
	if n := len(taken(t)); n != whole {
		t.Errorf("after the kills a job's lines have %d HCAs, wanted %d", n, whole)
	}
}
