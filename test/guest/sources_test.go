package guest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// slurmIsAtLeast tells whether the node's Slurm is of a version, or a later one.
func slurmIsAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	out := run(t, "scontrol --version")
	m := regexp.MustCompile(`(\d+)\.(\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("scontrol says of its version: %q", out)
	}
	return slices.Compare([]int{atoi(m[1]), atoi(m[2])}, []int{major, minor}) >= 0
}

// withSource has a configuration for the time of a test, after which Slurm is as it was.
func withSource(t *testing.T, text string) {
	t.Helper()
	writeConfig(t, text)
	t.Cleanup(func() {
		run(t, "scancel -u alice")
		eventually(t, "the epilogs have run", noLease)
		writeConfig(t, config)
	})
}

// byIndex are the names of the HCAs by Slurm's index, where the site lists none.
func byIndex(t *testing.T) []string {
	t.Helper()
	return strings.Fields(run(t, repo()+"/bin/gresnet-prolog scan --json | jq -r '.hcas | sort_by(.index)[].name'"))
}

// hasHCAs runs a job with a step and tells which HCAs that had, sorted.
func hasHCAs(t *testing.T, options string) string {
	t.Helper()
	out := as(t, "alice", "srun "+options+` bash -c 'echo "has ${GRESNET_HCAS:-none}"'`)
	eventually(t, "the epilog has run", noLease)
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
	t.Cleanup(func() { slurmAnew(t) })
	run(t, `
sed -i "s/CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 /CPUs=$(nproc) Boards=1 SocketsPerBoard=1 CoresPerSocket=$(nproc) /" /etc/slurm/slurm.conf
for daemon in slurmd slurmctld; do
	pid=$(cat /run/$daemon.pid)
	kill $pid
	timeout 60 tail --pid=$pid -s 0.1 -f /dev/null
done
slurmctld
slurmd`)
	eventually(t, "the node is idle with its own CPUs", func() bool {
		out, _ := try("sinfo -h -o '%T %c'; nproc")
		f := strings.Fields(out)
		return len(f) == 3 && f[0] == "idle" && f[1] == f[2]
	})
}

func TestAJobThatHasTheNodeToItselfGetsAllHCAsByTheSourceNode(t *testing.T) {
	slurm(t)
	before := picture(t)
	countItsCPUs(t)
	withSource(t, "[slurm]\nsource = [\"node\"]\n")
	all := strings.Join(slices.Sorted(slices.Values(hcas(t))), " ")
	cpus := strings.TrimSpace(run(t, "nproc"))
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
		same(t, before)
	}
}

const stopSlurmctld = `
pid=$(cat /run/slurmctld.pid)
kill $pid
timeout 60 tail --pid=$pid -s 0.1 -f /dev/null
`

func TestJobsGetAsManyHCAsAsSlurmCountsWhereTheGRESHasNoFiles(t *testing.T) {
	slurm(t)
	before := picture(t)
	all := len(hcas(t))
	run(t, fmt.Sprintf("echo Name=nic Count=%d >/tmp/counted.conf", all))
	t.Cleanup(func() { slurmAnew(t) })
	// slurmctld keeps of a node that its NICs had files.
	run(t, stopSlurmctld+"rm /var/spool/slurmctld/node_state*")
	slurmAnew(t, "--nics /tmp/counted.conf")
	withSource(t, askScontrol)

	jobs := make([]string, 2)
	for i := range jobs {
		jobs[i] = submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
		eventually(t, "its step runs", func() bool { return hasStep(jobs[i]) })
		if out := run(t, "scontrol show job -d "+jobs[i]); !strings.Contains(out, "GRES=nic(CNT:1)") {
			t.Errorf("Slurm does not count alone:\n%s", out)
		}
	}
	first, second := strings.Fields(claims(t, jobs[0])), strings.Fields(claims(t, jobs[1]))
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("the jobs have claimed %q and %q, wanted one each", first, second)
	}

	// More than are free, and more than there are.
	waiting := submit(t, "alice", fmt.Sprintf("--gres=nic:%d", all), "srun sleep 1000")
	eventually(t, "the third job waits with Slurm", func() bool {
		out, _ := try("squeue -h -o '%T %r' -j " + waiting)
		return out == "PENDING Resources\n"
	})
	if got := claims(t, waiting); got != "" {
		t.Errorf("the job that waits has claimed %s", got)
	}
	out, err := tryAs("alice", fmt.Sprintf("sbatch --gres=nic:%d --wrap true", all+1))
	if err == nil || !strings.Contains(out, "configuration is not available") {
		t.Errorf("a job for more than there are: %v: %s", err, out)
	}
	run(t, "scancel "+strings.Join(jobs, " "))
	eventually(t, "the third job's step runs", func() bool { return hasStep(waiting) })
	if got := strings.Fields(claims(t, waiting)); len(got) != all {
		t.Errorf("the third job has claimed %q, wanted all %d", got, all)
	}
	cancel(t, waiting)
	inService(t)
	same(t, before)
}

func TestAJobGetsWhatThePolicyOfItsConstraintAccountOrReservationSays(t *testing.T) {
	slurm(t)
	before := picture(t)
	names := byIndex(t)
	withSource(t, `
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
	run(t, "scontrol update nodename=node1 availablefeatures=big,hdr,ndr activefeatures=big,hdr,ndr")
	t.Cleanup(func() { run(t, "scontrol update nodename=node1 availablefeatures= activefeatures=") })
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
	run(t, "scontrol create reservation reservationname=night users=alice nodes=node1 starttime=now duration=60")
	t.Cleanup(func() { run(t, "scontrol delete reservationname=night") })
	if got := hasHCAs(t, "--reservation=night"); got != names[3] {
		t.Errorf("a job in the reservation has %s, wanted %s", got, names[3])
	}
	same(t, before)
}

// asking is a scontrol that writes down what it is asked.
const asking = `#!/bin/sh
echo "$*" >>/tmp/asked
exec /usr/bin/scontrol "$@"
`

func TestSlurmctldIsAskedOnceAndInTheFormOfItsVersion(t *testing.T) {
	slurm(t)
	before := picture(t)
	if err := os.WriteFile("/tmp/scontrol", []byte(asking), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "rm -f /tmp/asked")
	withSource(t, askScontrol+"scontrol = \"/tmp/scontrol\"\n")
	job := submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	eventually(t, "the step runs", func() bool { return hasStep(job) })
	index, names := slurmsIndex(t, job), byIndex(t)
	if got, want := claims(t, job), index+"="+names[atoi(index)]; got != want {
		t.Errorf("the job has claimed %q, wanted %q", got, want)
	}
	cancel(t, job)
	want := "show job -d " + job + "\n"
	if slurmIsAtLeast(t, 25, 11) {
		want = "show resources " + job + " --json\n"
	}
	if got := run(t, "cat /tmp/asked"); got != want {
		t.Errorf("prolog and epilog asked\n%swanted\n%s", got, want)
	}
	same(t, before)
}

// The GPUs are placeholders, which sit nowhere: the site says which HCA serves which.
func TestAJobGetsTheHCAsThatServeTheGPUsThatSlurmGaveIt(t *testing.T) {
	slurm(t)
	before := picture(t)
	names := byIndex(t)
	serves := [][]int{{0}, {1}, {2, 3}, {4, 5, 6, 7}}
	text := "[slurm]\nsource = [\"gpu\"]\n"
	for i, gpus := range serves {
		// In another order than their own.
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = %s\n", i, names[len(serves)-1-i], strings.ReplaceAll(fmt.Sprint(gpus), " ", ","))
	}
	withSource(t, text)
	var jobs []string
	held := map[string]bool{}
	for _, count := range []int{1, 1, 2, 3} {
		job := submit(t, "alice", fmt.Sprintf("--gres=gpu:%d", count), "srun sleep 1000")
		jobs = append(jobs, job)
		eventually(t, "its step runs", func() bool { return hasStep(job) })
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
		if got := claims(t, job); got != strings.Join(want, " ") {
			t.Errorf("job %s with GPUs %v has claimed %q, wanted %q", job, has, got, want)
		}
	}
	if len(held) == 0 || len(held) == len(serves) {
		t.Errorf("%v are held: wanted some, and one that is nobody's", held)
	}
	run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		ended(t, job)
	}
	same(t, before)
}

// gpusOf are the indices of the GPUs that Slurm gave a job.
func gpusOf(t *testing.T, job string) (gpus []int) {
	t.Helper()
	out := run(t, "scontrol show job -d "+job)
	m := regexp.MustCompile(`GRES=gpu:\d+\(IDX:([0-9,-]+)\)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("Slurm does not say which GPUs job %s has:\n%s", job, out)
	}
	for part := range strings.SplitSeq(m[1], ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		for g := atoi(first); g <= atoi(last); g++ {
			gpus = append(gpus, g)
		}
	}
	return gpus
}
