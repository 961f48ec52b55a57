package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

const guarded = "\n[access]\numad = true\nguard = \"required\"\n"

// sharedMode skips a test where the kernel itself tells jobs apart.
func sharedMode(t *testing.T) {
	t.Helper()
	needVM(t)
	if mode(t) != "shared" {
		netnstest.Skip(t, "needs shared mode: run the VM with --mode shared")
	}
}

// attack tries to open the devices of a task, whose process is PID: its uverbs
// and umad by all ways that there are, and says what came of each.
const attack = `
open() { if (exec 3<>"$2") 2>/tmp/said.$$; then echo "$1: opened"; else echo "$1: $(grep -o '[A-Z][a-z].*' /tmp/said.$$)"; fi; }
export -f open
ways() {
	for d in /proc/$PID/root/dev/infiniband/u*; do open $1.root.${d##*/} $d; done
	open $1.cwd /proc/$PID/cwd/$U
	open $1.fd /proc/$PID/fd/3
	(exec 4</proc/$PID/root/dev/infiniband; open $1.directory /proc/self/fd/4/$U) || echo "$1.directory: not to be had"
	open $1.mknod /tmp/node-$U
}
export -f ways
open name /dev/infiniband/$U
ways plain
# There /proc/PID is ptrace's to refuse; what was opened before is not.
(exec 5</proc/$PID/root/dev/infiniband
	unshare -Urm bash -c 'ways userns; open userns.inherited /proc/self/fd/5/$U'
	unshare -UrmpCf --mount-proc bash -c 'ways container; open container.inherited /proc/self/fd/5/$U') || echo "inherited: not to be had"
`

// victim is a job of alice's whose task has its HCA open as descriptor 3.
func victim(t *testing.T) (job, attackIt string) {
	t.Helper()
	job = submit(t, "alice", "--gres=nic:1", `srun bash -c "cd /dev/infiniband; exec 3<>\$(ls -d /dev/infiniband/uverbs*); exec sleep 1234"`)
	var pid string
	eventually(t, "the task runs", func() bool {
		out, err := try("pgrep -u alice -xf 'sleep 1234'")
		pid = strings.TrimSpace(out)
		return err == nil
	})
	node := claimedUverbs(t)
	// What somebody made of it before anybody guarded it.
	run(t, fmt.Sprintf("rm -f /tmp/node-*; mknod -m 666 /tmp/node-%s c $(tr : ' ' </sys/class/infiniband_verbs/%s/dev)", node, node))
	return job, "export PID=" + pid + " U=" + node + attack
}

// isDenied wants all ways closed: those that users reach, by the guard.
func isDenied(t *testing.T, who, out string) {
	t.Helper()
	reached := 0
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		way, said, _ := strings.Cut(line, ": ")
		if strings.Contains(line, "opened") {
			t.Errorf("%s opens the job's HCA: %s", who, line)
		}
		if regexp.MustCompile(`\.(root\.\w+|cwd|fd|directory|mknod|inherited)$`).MatchString(way) && said == "Operation not permitted" {
			reached++
		}
	}
	// Six plain ones, and two each in a user namespace and a container.
	if who != "bob" && reached < 10 {
		t.Errorf("%s: of the ways to the HCA only %d are closed by the guard:\n%s", who, reached, out)
	}
}

// jobsCgroup is the cgroup of the job of alice's whose task runs a command: Slurm names
// it by the job's id or, since 26.05, by its SLUID. srun may write a command with its path.
func jobsCgroup(t *testing.T, command string) string {
	t.Helper()
	var cgroup string
	eventually(t, "the task runs", func() bool {
		out, err := try("sed -nE 's#^0::(.*)/step_0/.*#/sys/fs/cgroup\\1#p' /proc/$(pgrep -u alice -xf '[^ ]*" + command + "')/cgroup")
		cgroup = strings.TrimSpace(out)
		return err == nil && cgroup != ""
	})
	return cgroup
}

// everybodyElseIsDenied has all those attack a job of alice's who are not the job.
func everybodyElseIsDenied(t *testing.T, attack string) {
	t.Helper()
	for who, command := range map[string]string{
		"a job without HCA":    "srun -n1 bash -c " + quote(attack),
		"a job with its own":   "srun -n1 --gres=nic:1 bash -c " + quote(attack),
		"a login":              attack,
		"a batch script":       "sbatch -W -o /tmp/batch.out --wrap " + quote("bash -c "+quote(attack)) + " >/dev/null; cat /tmp/batch.out",
		"a script with an HCA": "sbatch -W -o /tmp/batch.out --gres=nic:1 --wrap " + quote("bash -c "+quote(attack)) + " >/dev/null; cat /tmp/batch.out",
	} {
		isDenied(t, who, as(t, "alice", command))
	}
	out, _ := tryAs("bob", attack)
	isDenied(t, "bob", out)
}

// openAll is what a job can open of the devices that it has.
const openAll = `for d in /dev/infiniband/u*; do exec 3<>$d && echo opened; done`

func TestNobodyElseOpensAJobsHCAInSharedMode(t *testing.T) {
	sharedMode(t)
	withConfig(t, guarded)
	before := picture(t)
	t.Cleanup(func() { run(t, "rm -f /tmp/node-*"); slurmAnew(t) })
	for _, c := range []struct {
		name   string
		slurms bool // Slurm has device programs of its own
		with   []string
	}{
		{"ConstrainDevices=no", false, []string{"--unconstrained"}},
		{"ConstrainDevices=yes", true, nil},
	} {
		if !c.slurms && rounds(0, 1) == 0 {
			continue // the long tests have both
		}
		t.Run(c.name, func(t *testing.T) {
			slurmAnew(t, c.with...)
			t.Cleanup(func() { run(t, "scancel -u alice"); eventually(t, "the epilogs have run", noLease) })
			job, attack := victim(t)
			cgroup := jobsCgroup(t, "sleep 1234")
			slurms := cgrouptest.DevicePrograms(t, cgroup)
			if (slurms > 0) != c.slurms {
				t.Errorf("%s has %d programs", cgroup, slurms)
			}
			if n := cgrouptest.DevicePrograms(t, "/sys/fs/cgroup"); n != 1 {
				t.Errorf("the root has %d programs, wanted the guard", n)
			}
			everybodyElseIsDenied(t, attack)
			// A second step of the same job is the job.
			own := "srun --overlap --jobid=" + job + " bash -c " + quote(openAll)
			if out := as(t, "alice", own); strings.Count(out, "opened") != 2 {
				t.Errorf("the job's own uverbs and umad: %s", out)
			}
			if n := cgrouptest.DevicePrograms(t, cgroup); n != slurms {
				t.Errorf("Slurm had %d programs in %s and has %d", slurms, cgroup, n)
			}
			cancel(t, job)
			eventually(t, "the epilogs have run", noLease)
			if n := cgrouptest.DevicePrograms(t, "/sys/fs/cgroup"); n != 0 {
				t.Errorf("the root still has %d programs", n)
			}
			same(t, before)
		})
	}
}

// Otherwise the attack is none, and the test above proves nothing.
func TestWithoutTheGuardAUsersOtherProcessesOpenAJobsHCAInSharedMode(t *testing.T) {
	sharedMode(t)
	withConfig(t, strings.Replace(guarded, "required", "off", 1))
	before := picture(t)
	job, attack := victim(t)
	out := as(t, "alice", attack)
	for _, way := range []string{"plain.root." + claimedUverbs(t), "plain.fd", "plain.directory", "plain.mknod", "userns.inherited", "container.inherited"} {
		if !strings.Contains(out, way+": opened") {
			t.Errorf("%s is closed without a guard:\n%s", way, out)
		}
	}
	cancel(t, job)
	run(t, "rm /tmp/node-*")
	same(t, before)
}

// In exclusive mode the kernel keeps others out, in shared mode the guard.
func TestNoOtherJobOpensAJobsHCAByAnyWay(t *testing.T) {
	withConfig(t, guarded)
	before := picture(t)
	t.Cleanup(func() { run(t, "rm -f /tmp/node-*; scancel -u alice") })
	job, attack := victim(t)
	// What the job's namespace would open, if it could be entered.
	attack += `
nsenter -t $PID -n bash -c 'open nsenter.plain /proc/$PID/fd/3' 2>/dev/null || echo "nsenter: not to be had"
unshare -Ur nsenter -t $PID -n bash -c 'open nsenter.userns /proc/$PID/fd/3' 2>/dev/null || echo "nsenter: not to be had"
`
	everybodyElseIsDenied(t, attack)
	// Otherwise nothing is shown: the job itself opens it.
	if out := as(t, "alice", "srun --overlap --jobid="+job+" bash -c "+quote(openAll)); strings.Count(out, "opened") != 2 {
		t.Errorf("the job's own uverbs and umad: %s", out)
	}
	cancel(t, job)
	eventually(t, "the epilogs have run", noLease)
	same(t, before)
}

// bpfCalls is how often a program calls bpf(2).
func bpfCalls(t *testing.T, program string) int {
	t.Helper()
	if out, code := traced(t, program, lawJob, ""); code != 0 {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
	log, err := os.ReadFile(traceFile)
	if err != nil {
		t.Fatal(err)
	}
	n := len(regexp.MustCompile(`(?m)^\d+ +bpf\(`).FindAll(log, -1))
	if n < 5 {
		t.Fatalf("%s calls bpf(2) only %d times", program, n)
	}
	return n
}

// killedBy9 is the exit code of a shell's child that was killed.
const killedBy9 = 128 + 9

func TestAGuardThatIsHalfMadeOrHalfGoneIsUndoneInSharedMode(t *testing.T) {
	sharedMode(t)
	anHCAOfEachKind(t)
	before := picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		if program == "epilog" {
			must(t, "prolog", lawJob)
		}
		calls := bpfCalls(t, program)
		must(t, "epilog", lawJob)
		tries, kills := 0, 0
		for n := 1; n <= calls; n += rounds(5, 1) {
			tries++
			if program == "epilog" {
				must(t, "prolog", lawJob)
			}
			if _, code := traced(t, program, lawJob, fmt.Sprintf("-e inject=bpf:signal=KILL:when=%d", n)); code == killedBy9 {
				kills++
			}
			must(t, "epilog", lawJob)
			eventually(t, "the guard is gone", func() bool { return cgrouptest.DevicePrograms(t, "/sys/fs/cgroup") == 0 })
			if same(t, before); t.Failed() {
				t.Fatalf("after kill -9 of the %s at call %d of bpf(2)", program, n)
			}
		}
		// Go may deal its work to threads in another way than before, and the n-th call never come.
		if kills*2 < tries {
			t.Errorf("only %d of %d runs were killed", kills, tries)
		}
		t.Logf("%d kills of the %s", kills, program)
	}
}

func TestANodeThatCannotGuardDoesWhatTheSiteWantsInSharedMode(t *testing.T) {
	sharedMode(t)
	anHCAOfEachKind(t)
	text := run(t, "cat /etc/gresnet/gresnet.toml")
	run(t, "umount /sys/fs/bpf")
	t.Cleanup(func() { run(t, "mountpoint -q /sys/fs/bpf || mount -t bpf -o mode=700 bpf /sys/fs/bpf") })
	before := picture(t)
	must(t, "prolog", lawJob)
	must(t, "epilog", lawJob)
	same(t, before)
	out, _ := try(repo() + "/bin/gresnet-prolog check")
	if !strings.Contains(out, "warning  guard: jobs of one user can open each other's HCAs: /sys/fs/bpf is no BPF file system; mount -t bpf") {
		t.Errorf("check: %s", out)
	}
	writeConfig(t, text+"\n[access]\nguard = \"required\"\n")
	said, code := byHand(t, "prolog", lawJob)
	if code != 1 || !strings.Contains(said, "/sys/fs/bpf is no BPF file system") || !strings.Contains(said, "hint: mount -t bpf") {
		t.Errorf("exit %d: %s", code, said)
	}
	same(t, before)
	out, _ = try(repo() + "/bin/gresnet-prolog check")
	if !strings.Contains(out, "error    guard: no job gets an HCA") {
		t.Errorf("check: %s", out)
	}
}
