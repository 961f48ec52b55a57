package access

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/cgrouptest"
	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// sharedMode skips a test where the kernel itself tells jobs apart.
func sharedMode(t *testing.T) {
	t.Helper()
	if vm.Mode(t) != "shared" {
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

// victim returns a job of alice's whose task has its HCA open as descriptor 3.
func victim(t *testing.T) (job, attackIt string) {
	t.Helper()
	job = vm.Submit(t, "alice", "--gres=nic:1", `srun bash -c "cd /dev/infiniband; exec 3<>\$(ls -d /dev/infiniband/uverbs*); exec sleep 1234"`)
	var pid string
	vm.Eventually(t, "the task runs", func() bool {
		out, err := vm.Try("pgrep -u alice -xf 'sleep 1234'")
		pid = strings.TrimSpace(out)
		return err == nil
	})
	node := vm.ClaimedUverbs(t)
	// What somebody made of it before anybody guarded it.
	vm.Run(t, fmt.Sprintf("rm -f /tmp/node-*; mknod -m 666 /tmp/node-%s c $(tr : ' ' </sys/class/infiniband_verbs/%s/dev)", node, node))
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

// jobsCgroup returns the cgroup of the job of alice's whose task runs a command: Slurm names
// it by the job's id or, since 26.05, by its SLUID. srun may write a command with its path.
func jobsCgroup(t *testing.T, command string) string {
	t.Helper()
	var cgroup string
	vm.Eventually(t, "the task runs", func() bool {
		out, err := vm.Try("sed -nE 's#^0::(.*)/step_0/.*#/sys/fs/cgroup\\1#p' /proc/$(pgrep -u alice -xf '[^ ]*" + command + "')/cgroup")
		cgroup = strings.TrimSpace(out)
		return err == nil && cgroup != ""
	})
	return cgroup
}

// everybodyElseIsDenied has all those attack a job of alice's who are not the job.
func everybodyElseIsDenied(t *testing.T, attack string) {
	t.Helper()
	for who, command := range map[string]string{
		"a job without HCA":    "srun -n1 bash -c " + vm.Quote(attack),
		"a job with its own":   "srun -n1 --gres=nic:1 bash -c " + vm.Quote(attack),
		"a login":              attack,
		"a batch script":       "sbatch -W -o /tmp/batch.out --wrap " + vm.Quote("bash -c "+vm.Quote(attack)) + " >/dev/null; cat /tmp/batch.out",
		"a script with an HCA": "sbatch -W -o /tmp/batch.out --gres=nic:1 --wrap " + vm.Quote("bash -c "+vm.Quote(attack)) + " >/dev/null; cat /tmp/batch.out",
	} {
		isDenied(t, who, vm.As(t, "alice", command))
	}
	out, _ := vm.TryAs("bob", attack)
	isDenied(t, "bob", out)
}

// openAll is what a job can open of the devices that it has.
const openAll = `for d in /dev/infiniband/u*; do exec 3<>$d && echo opened; done`

func TestNobodyElseOpensAJobsHCAInSharedMode(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Smoke)
	sharedMode(t)
	vm.WithConfig(t, vm.Guarded)
	before := vm.Picture(t)
	t.Cleanup(func() { vm.Run(t, "rm -f /tmp/node-*"); vm.RestartSlurm(t) })
	for _, c := range []struct {
		name   string
		slurms bool // Slurm has device programs of its own
		with   []string
	}{
		{"ConstrainDevices=no", false, []string{"--unconstrained"}},
		{"ConstrainDevices=yes", true, nil},
	} {
		if !c.slurms && vm.Rounds(0, 1) == 0 {
			continue // the long tests have both
		}
		t.Run(c.name, func(t *testing.T) {
			vm.RestartSlurm(t, c.with...)
			t.Cleanup(func() { vm.Run(t, "scancel -u alice"); vm.Eventually(t, "the epilogs have run", vm.NoLease) })
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
			own := "srun --overlap --jobid=" + job + " bash -c " + vm.Quote(openAll)
			if out := vm.As(t, "alice", own); strings.Count(out, "opened") != 2 {
				t.Errorf("the job's own uverbs and umad: %s", out)
			}
			if n := cgrouptest.DevicePrograms(t, cgroup); n != slurms {
				t.Errorf("Slurm had %d programs in %s and has %d", slurms, cgroup, n)
			}
			vm.Cancel(t, job)
			vm.Eventually(t, "the epilogs have run", vm.NoLease)
			if n := cgrouptest.DevicePrograms(t, "/sys/fs/cgroup"); n != 0 {
				t.Errorf("the root still has %d programs", n)
			}
			vm.Same(t, before)
		})
	}
}

// Otherwise the attack is none, and the test above proves nothing.
func TestWithoutTheGuardAUsersOtherProcessesOpenAJobsHCAInSharedMode(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Long)
	sharedMode(t)
	vm.WithConfig(t, strings.Replace(vm.Guarded, "required", "off", 1))
	before := vm.Picture(t)
	job, attack := victim(t)
	out := vm.As(t, "alice", attack)
	for _, way := range []string{"plain.root." + vm.ClaimedUverbs(t), "plain.fd", "plain.directory", "plain.mknod", "userns.inherited", "container.inherited"} {
		if !strings.Contains(out, way+": opened") {
			t.Errorf("%s is closed without a guard:\n%s", way, out)
		}
	}
	vm.Cancel(t, job)
	vm.Run(t, "rm /tmp/node-*")
	vm.Same(t, before)
}

// In exclusive mode the kernel keeps others out, in shared mode the guard.
func TestNoOtherJobOpensAJobsHCAByAnyWay(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.WithConfig(t, vm.Guarded)
	before := vm.Picture(t)
	t.Cleanup(func() { vm.Run(t, "rm -f /tmp/node-*; scancel -u alice") })
	job, attack := victim(t)
	// What the job's namespace would open, if it could be entered.
	attack += `
nsenter -t $PID -n bash -c 'open nsenter.plain /proc/$PID/fd/3' 2>/dev/null || echo "nsenter: not to be had"
unshare -Ur nsenter -t $PID -n bash -c 'open nsenter.userns /proc/$PID/fd/3' 2>/dev/null || echo "nsenter: not to be had"
`
	everybodyElseIsDenied(t, attack)
	// Otherwise nothing is shown: the job itself opens it.
	if out := vm.As(t, "alice", "srun --overlap --jobid="+job+" bash -c "+vm.Quote(openAll)); strings.Count(out, "opened") != 2 {
		t.Errorf("the job's own uverbs and umad: %s", out)
	}
	vm.Cancel(t, job)
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	vm.Same(t, before)
}

// bpfCalls returns how often a program calls bpf(2).
func bpfCalls(t *testing.T, program string) int {
	t.Helper()
	if out, code := vm.Traced(t, program, vm.InvariantJob, ""); code != 0 {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
	log, err := os.ReadFile(vm.TraceFile)
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
	vm.Needs(t, vm.Shared, vm.Long)
	sharedMode(t)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		if program == "epilog" {
			vm.Must(t, "prolog", vm.InvariantJob)
		}
		calls := bpfCalls(t, program)
		vm.Must(t, "epilog", vm.InvariantJob)
		tries, kills := 0, 0
		for n := 1; n <= calls; n += vm.Rounds(5, 1) {
			tries++
			if program == "epilog" {
				vm.Must(t, "prolog", vm.InvariantJob)
			}
			if _, code := vm.Traced(t, program, vm.InvariantJob, fmt.Sprintf("-e inject=bpf:signal=KILL:when=%d", n)); code == killedBy9 {
				kills++
			}
			vm.Must(t, "epilog", vm.InvariantJob)
			vm.Eventually(t, "the guard is gone", func() bool { return cgrouptest.DevicePrograms(t, "/sys/fs/cgroup") == 0 })
			if vm.Same(t, before); t.Failed() {
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
	vm.Needs(t, vm.Shared, vm.Short)
	sharedMode(t)
	vm.AnHCAOfEachKind(t)
	text := vm.Run(t, "cat /etc/gresnet/gresnet.toml")
	vm.Run(t, "umount /sys/fs/bpf")
	t.Cleanup(func() { vm.Run(t, "mountpoint -q /sys/fs/bpf || mount -t bpf -o mode=700 bpf /sys/fs/bpf") })
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.InvariantJob)
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)
	out, _ := vm.Try(vm.Repo() + "/bin/gresnet check")
	if !strings.Contains(out, "warning  guard: jobs of one user can open each other's HCAs: /sys/fs/bpf is no BPF file system; mount -t bpf") {
		t.Errorf("check: %s", out)
	}
	vm.WriteConfig(t, text+"\n[access]\nguard = \"required\"\n")
	said, code := vm.ByHand(t, "prolog", vm.InvariantJob)
	if code != 1 || !strings.Contains(said, "/sys/fs/bpf is no BPF file system") || !strings.Contains(said, "hint: mount -t bpf") {
		t.Errorf("exit %d: %s", code, said)
	}
	vm.Same(t, before)
	out, _ = vm.Try(vm.Repo() + "/bin/gresnet check")
	if !strings.Contains(out, "error    guard: no job gets an HCA") {
		t.Errorf("check: %s", out)
	}
}
