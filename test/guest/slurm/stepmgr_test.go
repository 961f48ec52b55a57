package slurm

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// With stepmgr a job's extern slurmstepd gives out its steps, in place of slurmctld.
func withStepmgr(t *testing.T) {
	t.Helper()
	if !slurmIsAtLeast(t, 24, 5) {
		t.Skip("this Slurm has no stepmgr: it came with 24.05")
	}
	vm.RestartSlurm(t, "--conf SlurmctldParameters=enable_stepmgr")
	t.Cleanup(func() { vm.RestartSlurm(t) })
}

func TestStepsThatStepmgrGivesOutAreInside(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	withStepmgr(t)
	before := vm.Picture(t)
	// There is room for two at once. The other two are told when there is again.
	const steps = `for i in 1 2 3 4; do srun -n 1 --exact sh -c "` + vm.WhereAmI + `; sleep 2" & done; wait`
	out := vm.As(t, "alice", "rm -f /tmp/steps.out; sbatch --wait --stepmgr --ntasks=2 --gres=nic:1 -o /tmp/steps.out --wrap "+vm.Quote(steps)+"; cat /tmp/steps.out")
	nets := inJob(t, out, 4)
	for _, net := range nets {
		if net != nets[0] {
			t.Errorf("steps of a job are in several namespaces: %q", nets)
		}
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// srun --async ends when the step is accepted. It needs stepmgr.
func TestAStepThatItsSrunDoesNotWaitForIsInside(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	withStepmgr(t)
	if out, _ := vm.Try("srun --help"); !strings.Contains(out, "--async") {
		t.Skip("this Slurm's srun has no --async: it came with 26.05")
	}
	before := vm.Picture(t)
	const script = "srun --async --output=/tmp/async.out sh -c '" + vm.WhereAmI + "; ls /dev/infiniband; sleep 1000'; sleep 1000"
	job := vm.Submit(t, "alice", "--stepmgr --gres=nic:1", script)
	vm.Eventually(t, "the step runs", func() bool {
		out, _ := vm.Try("cat /tmp/async.out")
		return strings.Contains(out, "uverbs")
	})
	seesIts(t, "alice", job, 1)
	out := vm.Run(t, "cat /tmp/async.out")
	inJob(t, out, 1)
	if strings.Count(out, "uverbs") != 1 {
		t.Errorf("the step sees\n%s", out)
	}
	vm.Cancel(t, job)
	vm.Same(t, before)
}
