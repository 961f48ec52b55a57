package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gresnet/test/guest/vm"
)

// job is one boot of a lane's VM and the tests that run in it, by their folder.
type job struct {
	lane    vm.Lane
	folders []string
	tests   map[string][]string
}

func (j job) name() string { return j.lane.String() + " " + strings.Join(j.folders, ",") }

func (j job) count() (n int) {
	for _, names := range j.tests {
		n += len(names)
	}
	return n
}

// invariants counts the tests of the invariants.
func (j job) invariants() int { return len(j.tests["invariant"]) }

// emulators are the programs that run guests of other architectures. A run does not install them.
var emulators = map[string]string{"arm64": "qemu-system-aarch64"}

// most is how many tests a VM has: with more, one that begins late would end long after all others.
const most = 20

// plan deals the lanes' tests to VMs: one or more for each folder, and one for all of a smoke set,
// which is too small for the time that a boot takes. The invariants come first, because a slow machine runs no more than
// what comes first; then the longest.
func (r *run) plan(tests []vm.Test) (plan []job) {
	for _, lane := range vm.Runs[r.what] {
		_, err := exec.LookPath(emulators[lane.Arch])
		whole := job{lane: lane, tests: map[string][]string{}}
		for _, t := range tests {
			if len(r.folders) > 0 && !slices.Contains(r.folders, t.Shard) {
				continue
			}
			if !lane.Runs(t.Class) {
				r.elsewhere++
				continue
			}
			if whole.tests[t.Shard] == nil {
				whole.folders = append(whole.folders, t.Shard)
			}
			whole.tests[t.Shard] = append(whole.tests[t.Shard], t.Name)
		}
		switch {
		case len(whole.folders) == 0:
		case lane.Arch != "" && err != nil:
			r.say("%s: %d tests are skipped: %s is not installed", whole.name(), whole.count(), emulators[lane.Arch])
			r.skip(emulators[lane.Arch]+" is not installed", whole.count())
		case lane.Levels == vm.Smoke:
			plan = append(plan, whole)
		default:
			for _, folder := range whole.folders {
				tests := whole.tests[folder]
				vms := (len(tests) + most - 1) / most
				for some := range slices.Chunk(tests, (len(tests)+vms-1)/vms) {
					plan = append(plan, job{lane, []string{folder}, map[string][]string{folder: some}})
				}
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b job) int {
		return cmp.Or(b.invariants()-a.invariants(), b.count()-a.count())
	})
	return plan
}

// guests runs the jobs of a plan, several at once.
func (r *run) guests(plan []job) {
	workers := r.jobs
	if workers == 0 {
		workers = runtime.NumCPU()
		if r.what != "rest" { // which has two more programs running
			workers++ // a VM keeps less than one processor busy
		}
	}
	queue := make(chan job)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for j := range queue {
				switch {
				case r.ctx.Err() != nil:
				case r.enough > 0 && time.Since(r.start) > r.enough:
					r.say("%s: %d tests are skipped, the machine is slow", j.name(), j.count())
					r.skip(fmt.Sprintf("no VM begins after %s", r.enough), j.count())
				default:
					r.guest(j)
				}
			}
		})
	}
	begin := time.Now()
	for _, j := range plan {
		queue <- j
	}
	close(queue)
	all.Wait()
	r.took("the VM", time.Since(begin))
	if err := r.ctx.Err(); err != nil {
		r.fail("run", []string{"somebody ended the run before all tests had run"})
	}
}

// booted is what a guest says first.
const booted = "@@ booted"

// guest runs one job in a VM of its own, and in a second one what the first had no time for when
// its processor stood still.
func (r *run) guest(j job) {
	if s := r.boot(j, true); s.again() {
		left := job{j.lane, j.folders, map[string][]string{}}
		for folder, names := range j.tests {
			left.tests[folder] = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !s.missing[n] })
		}
		r.boot(left, false)
	}
}

// boot runs one job in a VM. spare says that another VM can do the rest.
func (r *run) boot(j job, spare bool) *stream {
	r.say("%s: %d tests", j.name(), j.count())
	script := "echo '" + booted + "'; status=0\n"
	for _, folder := range j.folders {
		if len(j.tests[folder]) == 0 {
			continue
		}
		script += fmt.Sprintf("%s/%s/%s.test -test.v -test.run '^(%s)$' || status=1\n",
			r.top(), filepath.Join(binaries, j.lane.Arch), folder, strings.Join(j.tests[folder], "|"))
	}
	left := int(r.left().Seconds())
	arguments := append([]string{"run"}, j.lane.Arguments()...)
	for _, name := range []string{"CI", "GRESNET_SEED", "GRESNET_ROUNDS"} {
		arguments = append(arguments, "--env", name+"="+os.Getenv(name))
	}
	arguments = append(arguments, "--env", "GRESNET_TEST="+r.level(j.lane), "--timeout", fmt.Sprint(left), "--", "bash", "-c", script+"exit $status")
	var wanted []string
	for _, names := range j.tests {
		wanted = append(wanted, names...)
	}
	s := newStream(r, j.name(), wanted)
	s.spare = spare
	s.read(r.program("test/vm/vm", arguments...))
	return s
}

// level says how thorough the tests of a lane are: those on a guest of another architecture take
// minutes for a kill, and so have few.
func (r *run) level(lane vm.Lane) string {
	if r.what == "test-long" && lane.Levels&vm.Long != 0 {
		return "long"
	}
	return "short"
}

// top returns the top folder of the work tree.
func (r *run) top() string {
	top, err := os.Getwd()
	if err != nil {
		panic(err) // it is where the programs were just built
	}
	return top
}
