package law

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/people/picture"
	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
)

// firsts are the first packages' programs, of November 2026, with which gresnet begins that sites may have.
var firsts = version{"gresnet-first-epilog boot", "gresnet-first-prolog close"}

// sinceFirst are settings that the first packages did not bring back: their journals have no place for them, or
// mangle them. This list must not grow: a setting that comes later is none that a running job has lost.
var sinceFirst = []string{
	"AMT", "FCoE", "HSR", "RDMA device on it", "alternative name that is not UTF-8", "bearer of TIPC", "bearer of TIPC over InfiniBand",
	"group of next hops that hardware counts for", "rate estimator",
}

// nodeOnly returns the picture of the node in any order, without what is below /run/gresnet: each version has its own there.
func nodeOnly(t *testing.T) string {
	t.Helper()
	text, err := picture.Take()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	return vm.Sorted(strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "/run/gresnet/") }), "\n"))
}

func TestAJobThatTheFirstPackagesTookIsGivenBackByTodaysPrograms(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.VF)
	if _, err := os.Stat(vm.Repo() + "/bin/gresnet-first-prolog"); err != nil {
		t.Fatalf("%v: build it by `make first`", err)
	}
	vm.Slurm(t)
	all := settings
	t.Cleanup(func() { settings = all; inNoParts(t) })
	settings = slices.DeleteFunc(slices.Clone(all), func(s setting) bool { return slices.Contains(sinceFirst, s.name) })
	first := seed.Value()
	for round := range share(t, 4) {
		r := rand.New(rand.NewPCG(first+uint64(round), 0))
		s := draw(t, r)
		s.config += "[uplink]\nkind = \"" + oneOf(r, "none", "auto") + "\"\n"
		drawn := configure(t, r, firsts.split(t, r, s))
		before := nodeOnly(t)
		same := func(when string) {
			t.Helper()
			if diff := netnstest.Diff(before, nodeOnly(t)); diff != "" {
				t.Fatalf("the node is not as it was %s; replay: GRESNET_SEED=%d; the site:\n%s\nbefore (-) and after (+):\n%s", when, first+uint64(round), s.config, diff)
			}
		}
		done := true // whether the first prolog was not killed
		if r.IntN(3) == 0 {
			full, _ := killed(t, "first-prolog", s.job, never)
			vm.Must(t, "first-epilog", s.job)
			firsts.closeNodes(t)
			same("after a job of the first packages alone")
			_, done = killed(t, "first-prolog", s.job, time.Duration(r.Int64N(int64(full))))
		} else {
			vm.Must(t, "first-prolog", s.job)
		}
		// Here the packages are upgraded.
		vm.Run(t, vm.Repo()+"/bin/gresnet status")
		beside := s.neighbor != "" && done // a job of a prolog that was killed would be in its way
		if beside {
			todays.closeNodes(t)
			vm.Must(t, "prolog", s.neighbor)
		}
		if beside && r.IntN(2) == 0 {
			vm.Must(t, "epilog", s.neighbor)
		}
		vm.Must(t, "epilog", s.job)
		if beside {
			vm.Must(t, "epilog", s.neighbor) // nothing is left to do if it has ended
		}
		todays.closeNodes(t)
		same("after the upgrade under the job")
		// There is no way back under a job, and an attempt changes nothing.
		vm.Must(t, "prolog", s.job)
		if out, code := vm.ByHand(t, "first-epilog", s.job); code != 2 || !strings.Contains(out, "another version") {
			t.Fatalf("the first packages' epilog of a job of today's prolog: exit %d: %s", code, out)
		}
		vm.Must(t, "epilog", s.job)
		todays.closeNodes(t)
		same("after a job of today's programs, and the first packages' epilog")
		takeAway(t, drawn)
		for _, name := range s.moving {
			dress(t, name, dressed[name])
		}
		t.Logf("seed %d: the first prolog ended: %t, a job of today's beside it: %t, %d settings; the site:\n%s", first+uint64(round), done, beside, len(drawn), s.config)
	}
}
