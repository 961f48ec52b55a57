package invariant

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gresnet/test/guest/vm"
	"gresnet/test/seed"
)

// configure gives interfaces settings at random, of those that come back, and returns them. What two
// of them exclude the kernel refuses.
func configure(t *testing.T, r *rand.Rand, names []string) (drawn []*given) {
	t.Helper()
	exclusive := vm.IsExclusive(t)
	for _, name := range names {
		var pool []setting
		p := placeOf(t, name)
		for _, s := range settings {
			remade := exclusive && p.kind() == ipoib && s.row == "by its index" // it has another one
			if (s.on == "" || s.on == p.kind()) && !s.alone && !s.apart && !remade {
				pool = append(pool, s)
			}
		}
		for _, i := range r.Perm(len(pool))[:r.IntN(len(pool))] {
			drawn = append(drawn, &given{setting: pool[i], place: p})
		}
	}
	slices.SortStableFunc(drawn, func(a, b *given) int { return rank(a) - rank(b) })
	give(t, drawn)
	vm.Run(t, "while ip -6 addr | grep -q tentative; do sleep 0.1; done")
	return drawn
}

// rank returns 0 for what is given first, as others that are there before it do not all come back: docs/restore.md
// says that the IPv6 MTU of an ipvlan is left.
func rank(g *given) int {
	if g.setting.name == "MTU" {
		return 0
	}
	return 1
}

// never is when a program is killed that is to end by itself.
const never = time.Hour

// killed runs a program as slurmd would, and ends it with SIGKILL after some
// time unless it is faster. It tells how long the program ran, and whether it ended by itself.
func killed(t *testing.T, program, job string, after time.Duration) (took time.Duration, done bool) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(vm.Repo() + "/bin/gresnet-" + program)
	cmd.Env = strings.Fields(strings.TrimPrefix(vm.SlurmdEnv, "env -i ") + job)
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if took = time.Since(start); err == nil {
		return took, true
	}
	if cmd.ProcessState.ExitCode() >= 0 || out.Len() > 0 {
		t.Fatalf("%s: %v: %s", program, err, out.String())
	}
	return took, false
}

// share returns how many of a long test's rounds this run does: several runs may share them.
func share(t *testing.T, all int) int {
	t.Helper()
	text := os.Getenv("GRESNET_ROUNDS")
	if text == "" {
		return all
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GRESNET_ROUNDS=%s is not a number of rounds", text)
	}
	return n
}

// leadOut has jobs get a way out or none, at random, and tells which.
func leadOut(t *testing.T, r *rand.Rand, config string) (kind string) {
	t.Helper()
	kind = []string{"none", "auto"}[r.IntN(2)]
	vm.WriteConfig(t, fmt.Sprintf("%s\n[uplink]\nkind = %q\n", config, kind))
	return kind
}

func TestKillsAtRandomUnderRandomSettingsLoseNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.AnHCAOfEachKind(t)
	vm.NoDeadline(t)
	config := vm.Run(t, "cat /etc/gresnet/gresnet.toml")
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0,1 SLURM_NODELIST=node1" // with an overlay
	first := seed.Value()
	kills, round := 0, 0
	var s uint64
	var drawn []*given
	var kind string
	defer func() {
		if t.Failed() {
			t.Logf("round %d, uplink %s; replay: GRESNET_SEED=%d", round, kind, s)
		}
		for _, g := range drawn {
			if t.Failed() && g.fate == "" {
				t.Logf("%s has: %s", g.place.name, g.setting.name)
			}
		}
	}()
	enough := share(t, vm.Rounds(3, 200))
	for ; kills < enough; round++ {
		s = first + uint64(round)
		r := rand.New(rand.NewPCG(s, 0))
		kind = leadOut(t, r, config)
		drawn = configure(t, r, strings.Fields(vm.Run(t, "ls /sys/class/net | grep -E '^(roce|ib)[0-9]+$'")))
		kills += killSome(t, r, job, vm.Picture(t))
		takeAway(t, drawn)
		vm.Run(t, vm.GiveAddresses) // some take them along
		t.Logf("seed %d: uplink %s, %d settings, %d kills so far", s, kind, len(drawn), kills)
	}
	t.Logf("%d kills in %d rounds from seed %d", kills, round, first)
}

// killSome kills the programs of a job at random, and returns how often. It fails the test unless the
// node is as the picture before shows it.
func killSome(t *testing.T, r *rand.Rand, job, before string) (kills int) {
	t.Helper()
	full := map[string]time.Duration{} // what each program takes under these settings if nobody kills it
	for _, program := range []string{"prolog", "epilog"} {
		full[program], _ = killed(t, program, job, never)
	}
	if vm.Same(t, before); t.Failed() {
		t.Fatal("without a kill")
	}
	for range vm.Rounds(1, 6) {
		some := time.Duration(r.Int64N(int64(full["prolog"])))
		if _, done := killed(t, "prolog", job, some); !done {
			kills++
		}
		// An epilog has to undo as much as the prolog did, and one after it what that has left.
		left := time.Duration(float64(full["epilog"]) * float64(some) / float64(full["prolog"]))
		for range 1 + r.IntN(3) {
			took, done := killed(t, "epilog", job, time.Duration(r.Int64N(int64(max(left, full["epilog"]/4)))))
			if done {
				break // another would have nothing to do
			}
			kills++
			left -= took
		}
		vm.Must(t, "epilog", job)
		if vm.Same(t, before); t.Failed() {
			t.Fatal("after a kill")
		}
	}
	return kills
}

// hasIt is what is said of an HCA that another job has.
const hasIt = " has it since"

func TestAnyNumberOfJobsAtOnceShareOutTheHCAsAndLoseNone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.Many)
	vm.Slurm(t)
	names := vm.HCAs(t)
	mapEach(t, names)
	vm.NoDeadline(t) // that many have to wait for each other
	before := vm.Picture(t)
	jobs := 4 * len(names)
	most := 1
	if len(names) >= 16 { // a run of its own
		most = share(t, 50)
	}
	for round := range most {
		holder := make([]atomic.Int64, len(names)) // the job that has each HCA
		ended := make(chan int, jobs)
		for j := range jobs {
			go func() {
				defer func() { ended <- 1 }()
				hca := j % len(names)
				job := fmt.Sprintf("SLURM_JOB_ID=%d SLURM_JOB_GPUS=%d", 900200+j, hca)
				out, code := vm.ByHand(t, "prolog", job)
				env, _ := vm.Try(fmt.Sprintf("cat /run/gresnet/jobs/%d/env", 900200+j))
				switch isRefused := strings.Contains(env, "GRESNET_REFUSED="); {
				case code != 0:
					t.Errorf("prolog of job %d: exit %d: %s", j, code, out)
				case isRefused && !strings.Contains(env, hasIt):
					t.Errorf("job %d is refused: %s", j, env)
				case !isRefused:
					if !holder[hca].CompareAndSwap(0, int64(900200+j)) {
						t.Errorf("job %d has HCA %d, and another job has it, too", j, hca)
					}
					if got, want := claimants(t, hca), []int{900200 + j}; !slices.Equal(got, want) {
						t.Errorf("HCA %d is claimed by %v, and leased to %v", hca, got, want)
					}
					holder[hca].Store(0)
				}
				if out, code := vm.ByHand(t, "epilog", job); code != 0 || out != "" {
					t.Errorf("epilog of job %d: exit %d: %s", j, code, out)
				}
			}()
		}
		for range jobs {
			<-ended
		}
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("round %d", round)
		}
		t.Logf("round %d of %d", round+1, most) // each may take minutes
	}
	t.Logf("%d jobs at once on %d HCAs, %d rounds", jobs, len(names), most)
}

// claimants returns the jobs that have claimed the HCA of an index.
func claimants(t *testing.T, index int) (jobs []int) {
	t.Helper()
	table := vm.Table(t)
	for _, c := range table.Claims {
		if index < len(table.HCAs) && c.HCA == table.HCAs[index].ID {
			jobs = append(jobs, int(c.Job))
		}
	}
	return jobs
}
