package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// claimsOf returns the names of the HCAs that a job has claimed.
func claimsOf(t *testing.T, job string) []string {
	t.Helper()
	return strings.Fields(vm.Jq(t, `.claims[] | select("\(.job)" == "`+job+`") | .name`))
}

// stateIs waits until Slurm says that a job is in a state.
func stateIs(t *testing.T, job, state string) {
	t.Helper()
	vm.Eventually(t, "job "+job+" is "+state, func() bool {
		out, _ := vm.Try("squeue -h -o %T -j " + job)
		return strings.TrimSpace(out) == state
	})
}

// seesIts fails unless a step of a job sees the HCAs that the job has claimed, and as many as wanted.
func seesIts(t *testing.T, user, job string, wanted int) {
	t.Helper()
	names := claimsOf(t, job)
	sees := vm.As(t, user, "srun --jobid="+job+" --overlap ls /dev/infiniband")
	if len(names) != wanted || strings.Count(sees, "uverbs") != wanted {
		t.Errorf("job %s has claimed %q and sees %q, wanted %d HCAs", job, names, sees, wanted)
	}
}

func TestASuspendedJobKeepsItsHCAsAndHasThemWhenItGoesOn(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	first := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(first) })
	vm.Run(t, "scontrol suspend "+first)
	stateIs(t, first, "SUSPENDED")
	others := vm.Atoi(vm.Run(t, "ls /var/lib/slurm-gres/nic* | wc -l")) - 1

	second := vm.Submit(t, "bob", fmt.Sprintf("--gres=nic:%d", others), "srun sleep 1000")
	vm.Eventually(t, "another job's step runs", func() bool { return vm.HasStep(second) })
	seesIts(t, "bob", second, others)
	if out, code := vm.Command(t, "gresnet cleanup "+first); code != 1 || !strings.Contains(out, "is its step") {
		t.Errorf("cleanup of a suspended job: exit %d: %s", code, out)
	}
	vm.Cancel(t, second)

	all := vm.Submit(t, "bob", fmt.Sprintf("--gres=nic:%d", others+1), "srun sleep 1000")
	stateIs(t, all, "PENDING")
	vm.Run(t, "scontrol resume "+first)
	stateIs(t, first, "RUNNING")
	seesIts(t, "alice", first, 1)
	vm.Cancel(t, first)
	vm.Eventually(t, "the job that wants all HCAs has them", func() bool { return vm.HasStep(all) })
	seesIts(t, "bob", all, others+1)
	vm.Cancel(t, all)
	inService(t)
	vm.Same(t, before)
}

// Two partitions on one node: a job of "high" has those of "low" make room.
func TestAJobThatIsPreemptedLosesNoHCAAndDrainsNoNode(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	all := vm.Atoi(vm.Run(t, "ls /var/lib/slurm-gres/nic* | wc -l"))
	t.Cleanup(func() { vm.RestartSlurm(t) })
	for _, c := range []struct {
		how       string
		low, high int    // HCAs that they ask for
		then      string // the state of the job that made room, or nothing if it has ended
		back      bool   // that job runs again when the other has ended
	}{
		{how: "CANCEL", low: all, high: 1},
		{how: "REQUEUE", low: all, high: 1, then: "PENDING", back: true},
		{how: "SUSPEND,GANG", low: 1, high: all - 1, then: "SUSPENDED", back: true},
	} {
		t.Run(c.how, func(t *testing.T) {
			vm.RestartSlurm(t, "--conf PreemptType=preempt/partition_prio --conf PreemptMode="+c.how,
				fmt.Sprintf("--conf AuthInfo=cred_expire=%.0f", vm.Slow(5*time.Second).Seconds()),
				"--conf 'PartitionName=low Nodes=node1 PriorityTier=1 OverSubscribe=FORCE:1'",
				"--conf 'PartitionName=high Nodes=node1 PriorityTier=10 OverSubscribe=FORCE:1'")
			low := vm.Submit(t, "alice", fmt.Sprintf("-p low --requeue --ntasks=16 --gres=nic:%d", c.low), "srun -n 1 sleep 1000")
			vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(low) })
			high := vm.Submit(t, "bob", fmt.Sprintf("-p high --ntasks=16 --gres=nic:%d", c.high), "srun -n 1 sleep 1000")
			vm.Eventually(t, "the step of the job that preempts runs", func() bool { return vm.HasStep(high) })
			seesIts(t, "bob", high, c.high)
			if c.then == "" {
				vm.Eventually(t, "the other's lease is gone", func() bool { return len(claimsOf(t, low)) == 0 })
			} else {
				stateIs(t, low, c.then)
			}
			vm.Cancel(t, high)
			if c.back {
				stateIs(t, low, "RUNNING")
				vm.Eventually(t, "its step runs", func() bool { return vm.HasStep(low) })
				seesIts(t, "alice", low, c.low)
				vm.Cancel(t, low)
			}
			inService(t)
			vm.Same(t, before)
		})
	}
}
