package slurm

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// gated is a prolog that waits before and after gresnet's, and tells where it is.
const gated = `#!/bin/bash
at() {
	echo "$SLURM_JOB_ID $1" >>/tmp/gate/at
	while [ -e "/tmp/gate/$1" ]; do sleep 0.05; done
}
at before
OURS
rc=$?
at after
echo "$SLURM_JOB_ID exit $rc" >>/tmp/gate/at
exit $rc
`

// lockNode holds the lock of the node table until its stdin ends: a prolog waits for it when its lease has
// begun and nothing is claimed.
const lockNode = "exec 9</run/gresnet/node.lock; flock 9; echo locked; cat"

// Who cancels or requeues a job while its prolog runs drains no node and loses nothing, wherever the prolog
// is. A requeued job has its HCAs again.
func TestAJobThatIsRequeuedOrCancelledDuringItsPrologDrainsNoNode(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	const prolog = "/usr/local/sbin/gated-prolog"
	text := strings.ReplaceAll(gated, "OURS", vm.Repo()+"/bin/gresnet-prolog")
	if err := os.WriteFile(prolog, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vm.RestartSlurm(t) })
	for _, moment := range []string{"before", "at the lock", "after"} {
		for _, what := range []string{"scontrol requeue ", "scontrol requeuehold ", "scancel "} {
			t.Run(what+moment, func(t *testing.T) {
				vm.Run(t, "rm -rf /tmp/gate; mkdir /tmp/gate; touch /tmp/gate/at")
				vm.RestartSlurm(t, "--conf Prolog="+prolog+" --conf AuthInfo=cred_expire=10")
				lock := func() {}
				has := func(job, where string) {
					vm.Eventually(t, "the prolog is "+where, func() bool {
						at, _ := os.ReadFile("/tmp/gate/at")
						return strings.Contains(string(at), job+" "+where+"\n")
					})
				}
				if moment == "at the lock" {
					lock = standin.Start(t, exec.Command("bash", "-c", lockNode))
				} else {
					vm.Run(t, "touch /tmp/gate/"+moment)
				}
				job := vm.Submit(t, "alice", "--requeue --gres=nic:1", "srun sleep 1000")
				if moment == "at the lock" {
					vm.Eventually(t, "the lease has begun", func() bool {
						_, err := os.Stat("/run/gresnet/jobs/" + job + "/journal")
						return err == nil
					})
				} else {
					has(job, moment)
				}
				vm.Run(t, what+job)
				state := strings.TrimSpace(vm.Run(t, "squeue -h -o '%T %r' -j "+job+"; sinfo -h -o %T"))
				vm.Run(t, "rm -f /tmp/gate/before /tmp/gate/after")
				lock()
				has(job, "exit 0")
				t.Logf("%s%s: then the job and the node are %s", what, moment, strings.ReplaceAll(state, "\n", ", "))
				switch what {
				case "scontrol requeuehold ":
					vm.Eventually(t, "the lease is gone", vm.NoLease)
					vm.Run(t, "scontrol release "+job)
					fallthrough
				case "scontrol requeue ":
					vm.Eventually(t, "the job's step runs again", func() bool { return vm.HasStep(job) })
					if env := vm.Run(t, "cat /run/gresnet/jobs/"+job+"/env"); !strings.Contains(env, "GRESNET_RUN=1\n") {
						t.Errorf("the second run's lease:\n%s", env)
					}
				}
				vm.Run(t, "scancel "+job)
				vm.Ended(t, job)
				inService(t)
				vm.Same(t, before)
			})
		}
	}
}
