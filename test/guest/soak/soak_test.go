package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
	"gresnet/test/seed"
)

// jobsOfARound are submitted at once. The first rounds warm the node up, with fewer jobs, and do not
// count.
const (
	jobsOfARound  = 100
	jobsOfAWarmUp = 25
	warmUp        = 2
)

// rounds returns how many count: 2 000 jobs on the first kernel, and a tenth on the others.
// GRESNET_ROUNDS says otherwise. A run that would not end in go test's time ends earlier.
func rounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("GRESNET_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("GRESNET_ROUNDS=%s is not a number of rounds", text)
		}
		return n
	}
	if strings.HasPrefix(vm.Run(t, "uname -r"), "6.1.") {
		return vm.Rounds(1, 20)
	}
	return vm.Rounds(1, 2)
}

// measured are what each round adds to the curves, in ms and KiB.
type measured struct{ prolog, epilog, slurmd, available, kernel []float64 }

// measure runs a few prologs and epilogs of a job with one HCA, on a node where nothing else runs.
func (m *measured) measure(t *testing.T) {
	t.Helper()
	const job = "SLURM_JOB_ID=900080 SLURM_JOB_PARTITION=hcas1 SLURM_NODELIST=node1"
	one := func(program string) float64 {
		cmd := exec.Command(vm.Repo() + "/bin/gresnet-" + program)
		cmd.Env = strings.Fields(strings.TrimPrefix(vm.SlurmdEnv, "env -i ") + job)
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s by hand: %v: %s", program, err, out)
		}
		return float64(time.Since(begin).Microseconds()) / 1000
	}
	for range 5 {
		m.prolog = append(m.prolog, one("prolog"))
		m.epilog = append(m.epilog, one("epilog"))
	}
}

// mib is how much memory may be gone after all jobs, as the table of counts names it. A network
// namespace that is left has some 200 KiB in the kernel, so it would be seen after a hundred.
var mib = map[string]int64{slurmdMemory: 4, kernelMemory: 16, availableMemory: 64}

// memoryIsThere fails the test if more memory is gone than may be.
func memoryIsThere(t *testing.T, before, now []count) {
	t.Helper()
	for i, c := range now {
		gone := c.n - before[i].n
		if c.what == availableMemory {
			gone = -gone
		}
		if most, bound := mib[c.what]; bound && gone > most<<10 {
			t.Errorf("%s: %d before, %d now: more than %d MiB are gone", c.what, before[i].n, c.n, most)
		}
	}
}

func TestThousandsOfJobsOfAllKindsLeaveNothingOnTheNode(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.NeedMPI(t)
	vm.Run(t, "install -m 777 -d "+tempFolder)
	slurm := partitions()
	vm.RestartSlurm(t, slurm...)
	t.Cleanup(func() {
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, "rm -rf "+tempFolder)
		vm.RestartSlurm(t)
	})
	slots := ""
	if !vm.IsExclusive(t) {
		slots = strings.TrimSpace(vm.Run(t, `rdma -j link | jq -r '.[] | select(.netdev == "roce0").ifname'`))
	}
	enough, seed, begin := rounds(t), seed.Value(), time.Now()
	t.Logf("%d rounds of %d jobs; replay: GRESNET_SEED=%d", enough, jobsOfARound, seed)
	var picture string
	all := result{seed: seed, total: map[string]int{}, hit: map[string]int{}}
	defer func() { all.tell(t, time.Since(begin)) }()
	longest := time.Duration(0)
	for round := range warmUp + enough {
		if end, ok := t.Deadline(); ok && round > warmUp && time.Until(end) < 2*longest+vm.Slow(30*time.Second) {
			t.Logf("round %d of %d would not end in time", round-warmUp+1, enough)
			break
		}
		start := time.Now()
		r := rand.New(rand.NewPCG(seed+uint64(round), 0))
		jobs := jobsOfARound
		s := site{scontrol: r.IntN(5) == 0, uplink: r.IntN(3) == 0, overlay: r.IntN(2) == 0, armed: r.IntN(2) == 0}
		switch {
		case round == 0:
			s = site{uplink: true, overlay: true}
		case slots != "" && (round == 1 || r.IntN(4) == 0):
			s.scontrol, s.slots = false, slots
		}
		if round < warmUp {
			jobs = jobsOfAWarmUp
		}
		vm.WriteConfig(t, s.config())
		dealt := draw(r, jobs, round == 0, s)
		hits := run(t, r, dealt)
		ran := time.Since(start)
		short := check(t, dealt)
		cleaned, _ := vm.Command(t, "gresnet cleanup") // what no prolog has cleaned up since
		vm.Eventually(t, "no lease is left", vm.NoLease)
		vm.WriteConfig(t, site{}.config())
		if round < warmUp {
			new(measured).measure(t)
			picture, all.before = vm.Picture(t), counts(t)
			all.before = nothingMore(t, all.before)
			t.Logf("warm-up %d of %d: %s, and the jobs %s of it", round+1, warmUp, time.Since(start).Round(time.Second), ran.Round(time.Second))
			continue
		}
		all.measure(t)
		vm.Same(t, picture)
		all.now = nothingMore(t, all.before)
		all.remember()
		longest = max(longest, time.Since(start))
		for _, b := range dealt {
			all.total[b.name] += b.count
			if s.slots != "" && b.hcas > 0 {
				all.slots += b.count
			}
		}
		for name, n := range hits {
			all.hit[name] += n
		}
		all.refused += short
		all.jobs += jobs
		t.Logf("%d jobs in %s, this round in %s: seed %d, %+v; %d for want of an HCA; cleanup: %s",
			all.jobs, time.Since(begin).Round(time.Second), ran.Round(time.Second), seed+uint64(round), s, short, strings.TrimSpace(cleaned))
		if t.Failed() {
			break
		}
	}
	memoryIsThere(t, all.before, all.now)
}

// result is what a run has to tell.
type result struct {
	seed                 uint64
	jobs, refused, slots int
	total, hit           map[string]int // jobs of each kind, and those that somebody disturbed in time
	before, now          []count
	measured
}

// remember adds the memory of a round to the curves.
func (r *result) remember() {
	for _, c := range r.now {
		switch c.what {
		case slurmdMemory:
			r.slurmd = append(r.slurmd, float64(c.n))
		case availableMemory:
			r.available = append(r.available, float64(c.n))
		case kernelMemory:
			r.kernel = append(r.kernel, float64(c.n))
		}
	}
}

// tell prints the result, and writes it to the file that GRESNET_SOAK names, in the folder of vm's
// --out.
func (r *result) tell(t *testing.T, took time.Duration) {
	t.Helper()
	if r.now == nil {
		return // no round has ended
	}
	text := fmt.Sprintf("mode %s, kernel %s, seed %d, %d jobs in %s\n\n", vm.Mode(t), strings.TrimSpace(vm.Run(t, "uname -r")), r.seed, r.jobs, took.Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(r.total)) {
		text += fmt.Sprintf("%5d %s", r.total[name], name)
		if n, ok := r.hit[name]; ok {
			text += fmt.Sprintf(", %d of them in time", n)
		}
		text += "\n"
	}
	text += fmt.Sprintf("%5d of all had slots\n", r.slots)
	text += fmt.Sprintf("%5d jobs with HCAs were refused because others had taken them\n\n", r.refused)
	text += curve("prolog, 1 HCA, ms", r.prolog) + curve("epilog, 1 HCA, ms", r.epilog)
	text += curve(slurmdMemory, r.slurmd) + curve(availableMemory, r.available) + curve(kernelMemory, r.kernel)
	text += "\n" + table(r.before, r.now)
	t.Log("\n" + text)
	if path := os.Getenv("GRESNET_SOAK"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// curve says how the medians of a run's tenths went, and how its last quarter compares with its first.
func curve(name string, all []float64) string {
	text := name + ", median of each tenth:"
	for n := range 10 {
		if part := all[len(all)*n/10 : len(all)*(n+1)/10]; len(part) > 0 {
			text += fmt.Sprintf(" %.1f", median(part))
		}
	}
	if first, last := all[:len(all)/4], all[len(all)-len(all)/4:]; len(first) > 0 {
		text += fmt.Sprintf("; last quarter %.2f times the first, and higher in %.0f %% of all pairs", median(last)/median(first), higher(last, first))
	}
	return text + "\n"
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// higher tells in how many of a hundred pairs the one is higher than the other: 50 if nothing changed.
func higher(one, other []float64) float64 {
	n := 0.0
	for _, a := range one {
		for _, b := range other {
			switch {
			case a > b:
				n++
			case a == b:
				n += 0.5
			}
		}
	}
	return 100 * n / float64(len(one)*len(other))
}
