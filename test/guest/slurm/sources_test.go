package slurm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// slurmIsAtLeast tells whether the node's Slurm is of a version, or a later one.
func slurmIsAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	out := vm.Run(t, "scontrol --version")
	m := regexp.MustCompile(`(\d+)\.(\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("scontrol says of its version: %q", out)
	}
	return slices.Compare([]int{vm.Atoi(m[1]), vm.Atoi(m[2])}, []int{major, minor}) >= 0
}

// hasHCAs runs a job with a step and tells which HCAs that had, sorted.
func hasHCAs(t *testing.T, options string) string {
	t.Helper()
	out := vm.As(t, "alice", "srun "+options+` bash -c 'echo "has ${GRESNET_HCAS:-none}"'`)
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	_, names, found := strings.Cut(strings.TrimSpace(out), "has ")
	if !found {
		t.Fatalf("srun %s: %s", options, out)
	}
	return strings.Join(slices.Sorted(strings.SplitSeq(names, ",")), " ")
}

// countItsCPUs has Slurm count the CPUs that the node really has: 22.05 tells who has
// it to himself by nothing else.
func countItsCPUs(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { vm.RestartSlurm(t) })
	vm.Run(t, `
sed -i "s/CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 /CPUs=$(nproc) Boards=1 SocketsPerBoard=1 CoresPerSocket=$(nproc) /" /etc/slurm/slurm.conf
for daemon in slurmd slurmctld; do
	pid=$(cat /run/$daemon.pid)
	kill $pid
	timeout $((60 * ${GRESNET_SLOW:-1})) tail --pid=$pid -s 0.1 -f /dev/null
done
slurmctld
slurmd`)
	vm.Eventually(t, "the node is idle with its own CPUs", func() bool {
		out, _ := vm.Try("sinfo -h -o '%T %c'; nproc")
		f := strings.Fields(out)
		return len(f) == 3 && f[0] == "idle" && f[1] == f[2]
	})
}

func TestAJobThatHasTheNodeToItselfGetsAllHCAsByTheSourceNode(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	countItsCPUs(t)
	vm.WithSource(t, "[slurm]\nsource = [\"node\"]\n")
	all := strings.Join(slices.Sorted(slices.Values(vm.HCAs(t))), " ")
	cpus := strings.TrimSpace(vm.Run(t, "nproc"))
	if cpus == "1" {
		t.Fatal("a node of one CPU has no jobs that share it")
	}
	allCPUs := "none"
	if !slurmIsAtLeast(t, 23, 2) {
		allCPUs = all
	}
	for _, c := range []struct{ options, want string }{
		{"--exclusive", all},
		{"-c1", "none"},
		{"-c" + cpus, allCPUs},
	} {
		if got := hasHCAs(t, c.options); got != c.want {
			t.Errorf("a job with %s has %s, wanted %s", c.options, got, c.want)
		}
		vm.Same(t, before)
	}
}

// The GPUs are placeholders, which sit nowhere: the site says which HCA serves which.
func TestWithTheShippedConfigurationAJobHasWhatItAskedForOrIsToldWhyNot(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	shipped, err := os.ReadFile(vm.Repo() + "/conf/gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(shipped)
	for i, name := range vm.ByIndex(t) {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%d, %d]\n", i, name, 2*i, 2*i+1)
	}
	vm.WithSource(t, text)
	for _, c := range []struct {
		gres string
		hcas int
		told string
	}{
		{"nic:1", 1, ""},
		{"gpu:4,nic:1", 1, ""},
		{"gpu:1,nic:1", 1, ""},
		{"gpu:4", 2, ""},
		{"gpu:1", 0, "has fewer HCAs than it could expect on node1: nic 0 is not granted: it serves GPUs 0-1, of which the job has 0\n"},
		{"gpu:3", 1, "has fewer HCAs than it could expect on node1: nic 1 is not granted: it serves GPUs 2-3, of which the job has 2\n"},
	} {
		out := vm.As(t, "alice", "srun -n2 --gres="+c.gres+` bash -c 'echo "has,$GRESNET_HCAS,"' 2>/tmp/told`)
		told := vm.Run(t, "grep gresnet: /tmp/told || true")
		for _, line := range strings.Fields(out) {
			if got := len(strings.FieldsFunc(line, func(r rune) bool { return r == ',' })) - 1; got != c.hcas {
				t.Errorf("a task of a job with %s: %s, wanted %d HCAs", c.gres, line, c.hcas)
			}
		}
		if !strings.HasSuffix(told, c.told) || strings.Count(told, "gresnet: job ") != strings.Count(c.told, "\n") || c.told == "" && told != "" {
			t.Errorf("a job with %s is told %q, wanted %q", c.gres, told, c.told)
		}
		vm.Eventually(t, "the epilog has run", func() bool {
			out, err := vm.Try("ls -A /run/gresnet/jobs; ls -A /run/gresnet/notices 2>/dev/null || true")
			return err == nil && strings.TrimSpace(out) == ""
		})
		vm.Same(t, before)
	}
}

// Slurm counts nothing of a GRES with no_consume: a job that asks for one has none by its count.
func TestAJobThatSlurmCountsNoNICsForIsRefusedAndTheNodeStays(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	all := len(vm.HCAs(t))
	vm.Run(t, fmt.Sprintf("echo Name=nic Count=%d >/tmp/counted.conf", all))
	t.Cleanup(func() {
		vm.Run(t, stopSlurmctld+"rm /var/spool/slurmctld/node_state*")
		vm.RestartSlurm(t)
	})
	vm.WithSource(t, vm.AskScontrol)
	node := "$(sed -n 's/,nic:/,nic:no_consume:/; /^NodeName=/p' /etc/slurm/slurm.conf)"
	for _, nics := range []string{"", "--nics /tmp/counted.conf "} {
		vm.Run(t, stopSlurmctld+"rm /var/spool/slurmctld/node_state*")
		vm.RestartSlurm(t, nics)
		vm.RestartSlurm(t, nics+`--conf "`+node+`"`)
		for range 2 {
			out, err := vm.TryAs("alice", "srun --gres=nic:1 true")
			if err == nil || !strings.Contains(out, "Slurm gave the job some and counts 0, as with no_consume") {
				t.Errorf("with %q: %v: %s", nics, err, out)
			}
			vm.Eventually(t, "the epilog has run", vm.NoLease)
			inService(t)
		}
	}
	vm.Same(t, before)
}

const stopSlurmctld = `
pid=$(cat /run/slurmctld.pid)
kill $pid
timeout $((60 * ${GRESNET_SLOW:-1})) tail --pid=$pid -s 0.1 -f /dev/null
`

func TestJobsGetAsManyHCAsAsSlurmCountsWhereTheGRESHasNoFiles(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	all := len(vm.HCAs(t))
	vm.Run(t, fmt.Sprintf("echo Name=nic Count=%d >/tmp/counted.conf", all))
	t.Cleanup(func() { vm.RestartSlurm(t) })
	// slurmctld keeps of a node that its NICs had files.
	vm.Run(t, stopSlurmctld+"rm /var/spool/slurmctld/node_state*")
	vm.RestartSlurm(t, "--nics /tmp/counted.conf")
	vm.WithSource(t, vm.AskScontrol)

	jobs := make([]string, 2)
	for i := range jobs {
		jobs[i] = vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
		vm.Eventually(t, "its step runs", func() bool { return vm.HasStep(jobs[i]) })
		if out := vm.Run(t, "scontrol show job -d "+jobs[i]); !strings.Contains(out, "GRES=nic(CNT:1)") {
			t.Errorf("Slurm does not count alone:\n%s", out)
		}
	}
	first, second := strings.Fields(vm.Claims(t, jobs[0])), strings.Fields(vm.Claims(t, jobs[1]))
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("the jobs have claimed %q and %q, wanted one each", first, second)
	}

	// More than are free, and more than there are.
	waiting := vm.Submit(t, "alice", fmt.Sprintf("--gres=nic:%d", all), "srun sleep 1000")
	vm.Eventually(t, "the third job waits with Slurm", func() bool {
		out, _ := vm.Try("squeue -h -o '%T %r' -j " + waiting)
		return out == "PENDING Resources\n"
	})
	if got := vm.Claims(t, waiting); got != "" {
		t.Errorf("the job that waits has claimed %s", got)
	}
	out, err := vm.TryAs("alice", fmt.Sprintf("sbatch --gres=nic:%d --wrap true", all+1))
	if err == nil || !strings.Contains(out, "configuration is not available") {
		t.Errorf("a job for more than there are: %v: %s", err, out)
	}
	vm.Run(t, "scancel "+strings.Join(jobs, " "))
	vm.Eventually(t, "the third job's step runs", func() bool { return vm.HasStep(waiting) })
	if got := strings.Fields(vm.Claims(t, waiting)); len(got) != all {
		t.Errorf("the third job has claimed %q, wanted all %d", got, all)
	}
	vm.Cancel(t, waiting)
	inService(t)
	vm.Same(t, before)
}

func TestAJobGetsWhatThePolicyOfItsConstraintAccountOrReservationSays(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	names := vm.ByIndex(t)
	vm.WithSource(t, `
[slurm]
source = ["policy"]
[[policy]]
constraint = "hdr"
indices = [1]
[[policy]]
account = ["chemistry", "physics"]
indices = [2]
[[policy]]
reservation = "night"
indices = [3]
[[policy]]
count = 0
`)
	vm.Run(t, "scontrol update nodename=node1 availablefeatures=big,hdr,ndr activefeatures=big,hdr,ndr")
	t.Cleanup(func() { vm.Run(t, "scontrol update nodename=node1 availablefeatures= activefeatures=") })
	for _, c := range []struct{ options, want string }{
		{"", "none"},
		{"-C hdr", names[1]},
		{"-C 'big&hdr'", names[1]},
		{"-C 'hdr|ndr'", "none"}, // it may be the other one that the job was given the node for
		{"-C ndr", "none"},
		{"-A physics", names[2]},
		{"-A biology", "none"},
		{"-A physics -C hdr", names[1]}, // the first that fits
	} {
		if got := hasHCAs(t, c.options); got != c.want {
			t.Errorf("a job with %q has %s, wanted %s", c.options, got, c.want)
		}
	}
	// Nobody else's jobs run on what is reserved, so this comes last.
	vm.Run(t, "scontrol create reservation reservationname=night users=alice nodes=node1 starttime=now duration=60")
	t.Cleanup(func() { vm.Run(t, "scontrol delete reservationname=night") })
	if got := hasHCAs(t, "--reservation=night"); got != names[3] {
		t.Errorf("a job in the reservation has %s, wanted %s", got, names[3])
	}
	vm.Same(t, before)
}

// asking is a scontrol that writes down what it is asked.
const asking = `#!/bin/sh
echo "$*" >>/tmp/asked
exec /usr/bin/scontrol "$@"
`

func TestSlurmctldIsAskedOnceAndInTheFormOfItsVersion(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	if err := os.WriteFile("/tmp/scontrol", []byte(asking), 0o755); err != nil {
		t.Fatal(err)
	}
	vm.Run(t, "rm -f /tmp/asked")
	vm.WithSource(t, vm.AskScontrol+"scontrol = \"/tmp/scontrol\"\n")
	job := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
	index, names := slurmsIndex(t, job), vm.ByIndex(t)
	if got, want := vm.Claims(t, job), index+"="+names[vm.Atoi(index)]; got != want {
		t.Errorf("the job has claimed %q, wanted %q", got, want)
	}
	vm.Cancel(t, job)
	want := "show job -d " + job + "\n"
	if slurmIsAtLeast(t, 25, 11) {
		want = "show resources " + job + " --json\n"
	}
	if got := vm.Run(t, "cat /tmp/asked"); got != want {
		t.Errorf("prolog and epilog asked\n%swanted\n%s", got, want)
	}
	vm.Same(t, before)
}

// The GPUs are placeholders, which sit nowhere: the site says which HCA serves which.
func TestAJobGetsTheHCAsThatServeTheGPUsThatSlurmGaveIt(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	names := vm.ByIndex(t)
	serves := [][]int{{0}, {1}, {2, 3}, {4, 5, 6, 7}}
	text := "[slurm]\nsource = [\"gpu\"]\n"
	for i, gpus := range serves {
		// In another order than their own.
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = %s\n", i, names[len(serves)-1-i], strings.ReplaceAll(fmt.Sprint(gpus), " ", ","))
	}
	vm.WithSource(t, text)
	var jobs []string
	held := map[string]bool{}
	for _, count := range []int{1, 1, 2, 3} {
		job := vm.Submit(t, "alice", fmt.Sprintf("--gres=gpu:%d", count), "srun sleep 1000")
		jobs = append(jobs, job)
		vm.Eventually(t, "its step runs", func() bool { return vm.HasStep(job) })
		has := gpusOf(t, job)
		if len(has) != count {
			t.Errorf("job %s has GPUs %v, asked for %d", job, has, count)
		}
		var want []string
		for i, gpus := range serves {
			// An HCA of whose GPUs the job has a part is nobody's.
			if !slices.ContainsFunc(gpus, func(g int) bool { return !slices.Contains(has, g) }) {
				want = append(want, fmt.Sprintf("%d=%s", i, names[len(serves)-1-i]))
				held[names[len(serves)-1-i]] = true
			}
		}
		if got := vm.Claims(t, job); got != strings.Join(want, " ") {
			t.Errorf("job %s with GPUs %v has claimed %q, wanted %q", job, has, got, want)
		}
	}
	if len(held) == 0 || len(held) == len(serves) {
		t.Errorf("%v are held: wanted some, and one that is nobody's", held)
	}
	vm.Run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		vm.Ended(t, job)
	}
	vm.Same(t, before)
}

// gpusOf returns the indices of the GPUs that Slurm gave a job.
func gpusOf(t *testing.T, job string) (gpus []int) {
	t.Helper()
	out := vm.Run(t, "scontrol show job -d "+job)
	m := regexp.MustCompile(`GRES=gpu:\d+\(IDX:([0-9,-]+)\)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("Slurm does not say which GPUs job %s has:\n%s", job, out)
	}
	for part := range strings.SplitSeq(m[1], ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		for g := vm.Atoi(first); g <= vm.Atoi(last); g++ {
			gpus = append(gpus, g)
		}
	}
	return gpus
}
