package slurm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// view is what a process finds of the node, and peel what a process with all
// capabilities in a user namespace of its own can try to find more.
const (
	view = `
readlink /proc/self/ns/net
ls /sys/class/infiniband /sys/class/infiniband_verbs /sys/class/net /dev/infiniband
ip -o link | cut -d: -f2
`
	peel = `
mkdir -p /tmp/peel.$$
try() { "$@" 2>/dev/null && echo "peeled: $*"; true; }
for at in /dev/infiniband /sys/class/infiniband /sys/class/infiniband_verbs /sys; do
	try umount $at
	try umount -l $at
	try mount --move $at /tmp/peel.$$
done
try mount --bind /dev /tmp/peel.$$
try mount --bind / /tmp/peel.$$
try mount -t sysfs none /tmp/peel.$$
# Where it is the first process itself it sees no process of others.
if [ $$ != 1 ]; then
	try nsenter -t 1 -n true
	try nsenter -t 1 -m true
	try nsenter -t $PPID -n true
	try nsenter -t $PPID -m true
fi
`
)

// A container without a network namespace of its own, as enroot makes one.
func TestAStepsContainerSeesWhatTheStepSeesAndCannotPeelItOff(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	step := "echo step; " + view
	for _, with := range []string{"-Urm", "-UrmpCf --mount-proc"} {
		step += "\necho container; unshare " + with + " bash -c " + vm.Quote(view+peel+"echo peels\n"+view)
	}
	t.Cleanup(func() { vm.Run(t, "rm -rf /tmp/peel.*") })
	out := vm.As(t, "alice", "srun --gres=nic:1 bash -ec "+vm.Quote(step))
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	if strings.Contains(out, "peeled: ") {
		t.Errorf("a container in a step finds more:\n%s", out)
	}
	parts := strings.Split(strings.TrimPrefix(out, "step\n"), "container\n")
	if len(parts) != 3 || strings.Count(parts[0], "uverbs") != 2 {
		t.Fatalf("wanted a step with one HCA and two containers:\n%s", out)
	}
	for _, part := range parts[1:] {
		if seen, after, _ := strings.Cut(part, "peels\n"); seen != parts[0] || after != parts[0] {
			t.Errorf("a container sees\n%s\nand then\n%s\nits step saw\n%s", seen, after, parts[0])
		}
	}
	vm.Same(t, before)
}

// Slurm goes to a step's folder before the plugin covers what is there.
func TestAStepInAFolderThatIsCoveredSeesTheJobs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	const folder = "/sys/class/net"
	out := vm.As(t, "alice", "srun --gres=nic:1 -D "+folder+" bash -c 'ls | xargs; ls "+folder+" | xargs'")
	if lines := strings.Split(out, "\n"); len(lines) != 3 || lines[0] != lines[1] || strings.Contains(out, "roce1") {
		t.Errorf("%s, and what is in it by its name:\n%s", folder, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// counted runs f between two counts of what steps might leave in slurmd and on the node.
func counted(t *testing.T, f func()) {
	t.Helper()
	before := vm.Picture(t)
	vm.As(t, "alice", "srun --gres=nic:1 true")
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	counts := vm.Run(t, slurmdCounts)
	f()
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Eventually(t, "slurmd has what it had:\n"+counts, func() bool { return vm.Run(t, slurmdCounts) == counts })
	vm.Same(t, before)
}

// byPMIx has srun start a PMIx server, and so a relay, where this Slurm can.
func byPMIx(t *testing.T) string {
	t.Helper()
	if strings.Contains(vm.Run(t, "srun --mpi=list 2>&1"), "pmix") {
		return " --mpi=pmix"
	}
	return ""
}

func TestManyTasksAtOnceAreAllInside(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	const tasks = 128
	counted(t, func() {
		out := vm.As(t, "alice", fmt.Sprintf("srun -n %d --overcommit --gres=nic:1%s bash -c %s", tasks, byPMIx(t), vm.Quote(vm.WhereAmI+"; "+isRelayed+" || true")))
		nets := inJob(t, out, tasks)
		if slices.Sort(nets); nets[0] != nets[tasks-1] {
			t.Errorf("tasks of one step are in %s and in %s", nets[0], nets[tasks-1])
		}
		if relayed := strings.Count(out, "relayed"); byPMIx(t) != "" && relayed != tasks {
			t.Errorf("%d tasks have a relay of PMIx, wanted %d", relayed, tasks)
		}
	})
}

// A task's prolog runs when the task is inside and its program not executed yet.
func TestATaskThatIsKilledBeforeItsProgramIsExecutedLeavesNothing(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	const kill = "#!/bin/bash\nreadlink /proc/self/ns/net >/tmp/killed.$SLURM_PROCID\npkill -KILL -u alice slurmstepd\n"
	if err := os.WriteFile("/tmp/task-kill", []byte(kill), 0o755); err != nil {
		t.Fatal(err)
	}
	counted(t, func() {
		out, err := vm.TryAs("alice", "rm -f /tmp/killed.*; srun -n 4 --gres=nic:1"+byPMIx(t)+" --task-prolog=/tmp/task-kill echo has run")
		if err == nil || strings.Contains(out, "has run") {
			t.Errorf("srun: %v\n%s", err, out)
		}
		if where := vm.Run(t, "cat /tmp/killed.*"); strings.Contains(where, strings.TrimSpace(vm.Run(t, vm.WhereAmI))) {
			t.Errorf("tasks were killed in %s", where)
		}
	})
}

func TestAStepWhoseSlurmstepdIsKilledStaysInsideAndLeavesNothing(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	counted(t, func() {
		job := vm.Submit(t, "alice", "--gres=nic:1", "srun"+byPMIx(t)+" sleep 4321")
		var pid string
		vm.Eventually(t, "the task runs", func() bool {
			out, err := vm.Try("pgrep -u alice -xf '[^ ]*sleep 4321'")
			pid = strings.TrimSpace(out)
			return err == nil
		})
		where := vm.Run(t, "readlink /proc/"+pid+"/ns/net")
		vm.Run(t, "kill -KILL $(pgrep -u root -f '^slurmstepd: \\["+job+"\\.0\\]')")
		// Slurm itself may leave the task to nobody: it has no other network for that.
		if now, err := vm.Try("readlink /proc/" + pid + "/ns/net"); err == nil && now != where {
			t.Errorf("the task was in %s and is in %s", where, now)
		}
		vm.Run(t, "scancel "+job)
		vm.Ended(t, job)
		vm.Try("kill -KILL " + pid)
		vm.Eventually(t, "the task is gone", func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	})
}

// A user's own names must neither lead a task elsewhere nor keep it from running.
func TestAUsersOwnPMIxIsNotBelieved(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	const users = "export PMIX_NAMESPACE=slurm.pmix.1.0 PMIX_RANK=7 PMIX_SERVER_URI2='x.0;tcp4://127.0.0.1:6818' PMIX_SERVER_URI_MINE='x.0;tcp4://127.0.0.1:6818' SLURM_PMIX_MAPPING_SERV=x; "
	out := vm.As(t, "alice", users+vm.SrunMPI(2, "--gres=nic:1"))
	vm.WholeWorld(t, vm.Ranks(t, out), 2, out)
	// Its name is another job's: a step without PMIx is not one whose server is missing.
	if out, err := vm.TryAs("alice", users+"srun --mpi=none --gres=nic:1 "+vm.WhereAmI); err != nil {
		t.Errorf("a step without PMIx: %v\n%s", err, out)
	}
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	vm.Same(t, before)
}
