package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// tempFolder is where jobs write, and their scripts are.
const tempFolder = "/tmp/soak"

// kind is a kind of job. Most jobs are light, a script that says a word: an emulated processor
// takes a second for a step.
type kind struct {
	name    string
	weight  int // how many of a hundred are of it, about
	options func(r *rand.Rand) string
	script  string
	says    func(hcas int, out string) bool // what it wrote is right; nil: it may have come to nothing
	disturb func(r *rand.Rand, job string) (hit bool)
	disarms bool // HCAs may be missing to others of its round, until somebody cleans up
}

// Slurm counts the HCAs of such a job, or a policy gives it as many.
func whole(r *rand.Rand) string { return hcas([]int{1, 1, 1, 1, 1, 1, 2, 4}[r.IntN(8)]) }
func one(*rand.Rand) string     { return hcas(1) }
func few(r *rand.Rand) string   { return hcas(1 + r.IntN(2)) }
func slot(*rand.Rand) string    { return "-p slots1" }

func hcas(n int) string { return fmt.Sprintf("-p hcas%d --gres=nic:%d", n, n) }

const (
	// This step stays until somebody ends it. Its file tells the test that it runs.
	stays = "srun bash -c ': >started-$SLURM_JOB_ID; exec sleep 1000'"
	look  = `'cd /dev/infiniband; set -- uverbs*; echo "has $#"'`
	looks = "srun bash -c " + look
	// As enroot makes one.
	looksInContainer = "srun unshare -Urmpf --mount-proc bash -c " + look
)

func ran(_ int, out string) bool        { return strings.Contains(out, "ran\n") }
func refused(_ int, out string) bool    { return strings.Contains(out, "refused: ") }
func has(hcas int, out string) bool     { return strings.Contains(out, fmt.Sprintf("has %d\n", hcas)) }
func ranAgain(_ int, out string) bool   { return strings.Contains(out, "ran again\n") }
func worldOfTwo(_ int, out string) bool { return strings.Count(out, " size=2 ") == 2 }

func kinds() []kind {
	return []kind{
		{name: "HCAs", weight: 68, options: whole, script: "echo ran", says: ran},
		{name: "no HCA", weight: 14, options: func(*rand.Rand) string { return "-p hcas0" }, script: "echo ran", says: ran},
		{name: "HCAs and a step", weight: 3, options: whole, script: looks, says: has},
		{name: "a container", weight: 2, options: few, script: looksInContainer, says: has},
		{name: "MPI", weight: 1, options: func(r *rand.Rand) string { return "-n2 " + one(r) }, script: vm.SrunMPI(2, ""), says: worldOfTwo},
		{name: "more HCAs than there are", weight: 2, options: func(*rand.Rand) string { return "-p hcas9" }, script: looks, says: refused},
		{name: "HCAs that others have", weight: 1, options: func(*rand.Rand) string { return "-p hcas4" }, script: looks, disarms: true},
		{name: "cancelled as it starts", weight: 3, options: few, script: looks, disturb: cancelStarting},
		{name: "cancelled", weight: 2, options: few, script: stays, disturb: cancelRunning},
		{name: "requeued", weight: 1, options: func(r *rand.Rand) string { return "--requeue " + few(r) }, script: `[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo ran again; exit; }` + "\n" + stays, says: ranAgain, disturb: requeue},
		{name: "slurmstepd killed", weight: 2, options: few, script: stays, disturb: killStepd},
		{name: "prolog killed", weight: 1, options: few, script: looks, disturb: killProlog, disarms: true},
		{name: "epilog killed", weight: 1, options: few, script: ": >started-$SLURM_JOB_ID", disturb: killEpilog, disarms: true},
	}
}

// site is a configuration of a round.
type site struct {
	scontrol, uplink, overlay bool
	armed                     bool   // no HCA may be missing to a job: none of the kinds that disarm
	slots                     string // the HCA that jobs have slots of, and no other; nothing: they have whole ones
}

// has tells whether a site has jobs of a kind.
func (s site) has(k kind) bool {
	switch k.name {
	case "more HCAs than there are":
		return !s.scontrol && s.slots == "" // Slurm has counted none for it
	case "HCAs that others have":
		return !s.scontrol && s.slots == "" && !s.armed
	}
	return !s.armed || !k.disarms
}

// of has a kind's jobs ask for what the site has.
func (s site) of(k kind) kind {
	if s.slots == "" || k.name == "no HCA" {
		return k
	}
	options := k.options
	k.options = func(r *rand.Rand) string {
		before, _, _ := strings.Cut(options(r), "-p ")
		return before + slot(r)
	}
	return k
}

// slots is how many an HCA has: its port's 64 GIDs are enough for no more. The jobs of their partition have as many CPUs.
const slots = 14

// partitions returns those by which policies know what jobs get.
func partitions() (options []string) {
	for _, name := range []string{"hcas0", "hcas1", "hcas2", "hcas4", "hcas9"} {
		options = append(options, fmt.Sprintf("--conf 'PartitionName=%s Nodes=node1 MaxTime=INFINITE State=UP'", name))
	}
	return append(options, fmt.Sprintf("--conf 'PartitionName=slots1 Nodes=node1 MaxTime=INFINITE State=UP MaxCPUsPerNode=%d'", slots))
}

func (s site) config() string {
	source, uplink := "policy", "none"
	if s.scontrol {
		source = "scontrol"
	}
	if s.uplink {
		uplink = "auto"
	}
	text := fmt.Sprintf("[slurm]\nsource = [%q]\ntimeout = \"5m\"\n[deadline]\nprolog = \"1h\"\nepilog = \"1h\"\n[uplink]\nkind = %q\n", source, uplink)
	if !s.overlay {
		text += "[overlay]\nkind = \"none\"\n"
	}
	if s.slots != "" {
		text += fmt.Sprintf("[[hca]]\nindex = 0\nmatch = \"rdma=%s\"\npart = \"macvlan\"\ncount = %d\nnetwork = \"10.128.0.0/16\"\n", s.slots, slots)
		text += "[[policy]]\npartition = \"slots1\"\ncount = 1\n"
	} else if !s.scontrol {
		for _, n := range []int{1, 2, 4, 9} {
			text += fmt.Sprintf("[[policy]]\npartition = \"hcas%d\"\ncount = %d\n", n, n)
		}
	}
	if !s.scontrol {
		text += "[[policy]]\ncount = 0\n"
	}
	return text
}

// batch is jobs of one kind that are submitted together.
type batch struct {
	kind
	count, hcas int
	options     string
	file        string // what its jobs write to begins so
	jobs        []string
}

// draw deals the jobs of a round, those that somebody disturbs first.
func draw(r *rand.Rand, jobs int, each bool, s site) (all []*batch) {
	var pool []kind
	for _, k := range kinds() {
		if !s.has(k) {
			continue
		}
		for range k.weight {
			pool = append(pool, s.of(k))
		}
	}
	add := func(k kind) {
		options := k.options(r)
		for _, b := range all {
			if b.name == k.name && b.options == options {
				b.count++
				return
			}
		}
		b := &batch{kind: k, count: 1, options: options, file: fmt.Sprintf("%s/%d-", tempFolder, len(all))}
		_, partition, _ := strings.Cut(options, "-p ")
		fmt.Sscanf(strings.TrimLeft(partition, "hcaslot"), "%d", &b.hcas)
		all = append(all, b)
	}
	n := 0
	if each {
		for _, k := range kinds() {
			if s.has(k) {
				add(s.of(k))
				n++
			}
		}
	}
	for ; n < jobs; n++ {
		add(pool[r.IntN(len(pool))])
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// submit submits all jobs of a round by one shell. The elements of an array have ids of their own.
func submit(t *testing.T, all []*batch) {
	t.Helper()
	text := "cd " + tempFolder + "\n"
	for _, b := range all {
		script := "#!/bin/bash\ncd " + tempFolder + "\ntrap ': >ended-$SLURM_JOB_ID' EXIT\n" + b.script + "\n"
		if err := os.WriteFile(b.file+"script", []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if b.disturb == nil {
			text += fmt.Sprintf("sbatch --parsable -o %s%%j.out %s --array=1-%d %sscript\n", b.file, b.options, b.count, b.file)
			continue
		}
		for range b.count {
			text += fmt.Sprintf("sbatch --parsable -o %s%%j.out %s %sscript\n", b.file, b.options, b.file)
		}
	}
	ids := strings.Fields(vm.As(t, "alice", text))
	for _, b := range all {
		n := 1
		if b.disturb != nil {
			n = b.count
		}
		if len(ids) < n {
			t.Fatalf("sbatch names too few jobs: %q", ids)
		}
		b.jobs, ids = ids[:n], ids[n:]
	}
}

// run runs the jobs of a round to their end, and returns how many disturbances came in time.
func run(t *testing.T, r *rand.Rand, all []*batch) (hits map[string]int) {
	t.Helper()
	vm.Run(t, "rm -rf "+tempFolder+"; install -d -o alice -m 777 "+tempFolder)
	submit(t, all)
	over := make(chan struct{})
	hits = map[string]int{}
	var mutex sync.Mutex
	var disturbers sync.WaitGroup
	for _, b := range all {
		if b.disturb == nil {
			continue
		}
		for _, job := range b.jobs {
			own := rand.New(rand.NewPCG(r.Uint64(), 0))
			disturbers.Go(func() {
				hit := b.disturb(own, job)
				mutex.Lock()
				defer mutex.Unlock()
				if hit {
					hits[b.name]++
				}
			})
		}
	}
	go func() { disturbers.Wait(); close(over) }()
	jobsEnd(t, over)
	return hits
}

// jobsEnd waits until all jobs have ended, and does what an administrator does meanwhile: it
// cancels jobs that Slurm holds and takes the node into service again after a killed program.
func jobsEnd(t *testing.T, over chan struct{}) {
	t.Helper()
	end := time.Now().Add(vm.Slow(time.Hour))
	for ; ; time.Sleep(4 * time.Second) {
		jobs, wrong := vm.Try("squeue -h -r -o '%A %T %r'")
		state, _ := vm.Try("sinfo -h -o %T")
		state = strings.TrimSpace(state)
		states := map[string]int{}
		for line := range strings.Lines(jobs) {
			words := strings.Fields(line)
			if wrong != nil || len(words) < 2 {
				break
			}
			if states[words[1]]++; strings.Contains(strings.ToLower(line), "held") {
				vm.Try("scancel " + words[0])
			}
		}
		switch {
		case strings.Contains(state, "drain"):
			vm.Try("scontrol update nodename=node1 state=resume")
		case wrong == nil && len(states) == 0 && state == "idle":
			select {
			case <-over:
				return
			default:
			}
		}
		if time.Now().After(end) {
			t.Fatalf("jobs do not end, %v on a node that is %s:\n%s", states, state, vm.SlurmState())
		}
	}
}

// check fails the test if jobs have not said what they should have.
func check(t *testing.T, all []*batch) (short int) {
	t.Helper()
	disarmed := false
	for _, b := range all {
		disarmed = disarmed || b.disarms
	}
	for _, b := range all {
		if b.says == nil {
			continue
		}
		files := glob(b.file + "*.out")
		if len(files) != b.count {
			t.Errorf("%d of %d jobs of kind %q, %s, have written something", len(files), b.count, b.name, b.options)
		}
		for _, file := range files {
			out := read(file)
			switch {
			case b.says(b.hcas, out):
			case disarmed && b.hcas > 0 && refused(0, out):
				short++ // a killed job's HCAs, or one that others took
			default:
				t.Errorf("a job of kind %q, %s, says %q in %s", b.name, b.options, out, filepath.Base(file))
			}
		}
	}
	return short
}

// within waits for something that a job is about to be, unless its script ends before: it may have
// been refused. It waits long, because a job may wait for the HCAs of others first.
func within(job string, holds func() bool) bool {
	for end := time.Now().Add(vm.Slow(time.Hour)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
		if exists(tempFolder+"/ended-"+job)() && !leased(job)() {
			return holds()
		}
	}
	return false
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Lstat(path)
		return err == nil
	}
}

func started(job string) func() bool { return exists(tempFolder + "/started-" + job) }
func leased(job string) func() bool  { return exists("/run/gresnet/jobs/" + job) }

// moment is some time in which what has begun may or may not be over.
func moment(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(vm.Slow(150 * time.Millisecond)))))
}

func cancelStarting(r *rand.Rand, job string) bool {
	if r.IntN(4) > 0 && !within(job, leased(job)) {
		return false
	}
	moment(r)
	_, err := vm.Try("scancel " + job)
	return err == nil
}

func cancelRunning(_ *rand.Rand, job string) bool {
	ok := within(job, started(job))
	vm.Try("scancel " + job)
	return ok
}

func requeue(_ *rand.Rand, job string) bool {
	if !within(job, started(job)) {
		vm.Try("scancel " + job)
		return false
	}
	_, err := vm.Try("scontrol requeue " + job)
	return err == nil
}

// killStepd kills the slurmstepd of one of the job's steps. Nobody but the administrator ends
// the step's processes then, or removes its cgroup, its socket and what it wrote for its tasks.
func killStepd(r *rand.Rand, job string) bool {
	ok := within(job, started(job))
	step := []string{"batch", "extern", "0"}[r.IntN(3)]
	hit := ok && kill("slurmstepd", "["+job+"."+step+"]")
	vm.Try("scancel " + job)
	if !within(job, func() bool { return !leased(job)() }) {
		return false
	}
	for _, cgroup := range glob("/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_" + job) {
		os.WriteFile(cgroup+"/cgroup.kill", []byte("1"), 0)
		for range 100 { // those that were killed take their time
			if vm.Try("find " + cgroup + " -depth -type d -exec rmdir {} + 2>/dev/null"); !exists(cgroup)() {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	vm.Try("rm -f /var/spool/slurmd/*_" + job + ".*")
	return hit
}

func killProlog(r *rand.Rand, job string) bool {
	if !within(job, leased(job)) {
		return false
	}
	moment(r)
	return kill("gresnet-prolog", "SLURM_JOB_ID="+job)
}

func killEpilog(r *rand.Rand, job string) bool {
	if !within(job, started(job)) {
		return false
	}
	return within(job, func() bool { return !leased(job)() || find("gresnet-epilog", "SLURM_JOB_ID="+job) > 0 }) &&
		kill("gresnet-epilog", "SLURM_JOB_ID="+job)
}

// kill kills the process of a name that says something of itself, as its pid is now.
func kill(name, says string) bool {
	pid := find(name, says)
	return pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// find returns the pid of a process by its name and a word of its command line or environment.
func find(name, says string) (pid int) {
	for _, p := range glob("/proc/[0-9]*") {
		if !strings.HasPrefix(name, strings.TrimSpace(read(p+"/comm"))) {
			continue
		}
		text := read(p+"/cmdline") + "\x00" + read(p+"/environ") + "\x00"
		if strings.Contains(text, says+"\x00") || strings.Contains(text, says) && strings.HasPrefix(says, "[") {
			fmt.Sscanf(filepath.Base(p), "%d", &pid)
			return pid
		}
	}
	return 0
}
