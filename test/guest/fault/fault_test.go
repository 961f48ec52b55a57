package fault

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// wrapper stands in for Prolog= and makes a job's first run fail where a lease
// becomes one, at its very last system call; later runs are left alone.
const wrapper = `#!/bin/bash
[ "$SLURM_JOB_RESTART_COUNT" = 0 ] || exec REPO/bin/gresnet-prolog
exec /usr/bin/strace -E ` + vm.NoPreemption + ` -f -qq -e signal=none -o /tmp/strace.out -e trace=rename,renameat,renameat2 \
	-P /run/gresnet/jobs/$SLURM_JOB_ID/env.new -e inject=rename,renameat,renameat2:error=EIO REPO/bin/gresnet-prolog
`

func TestAPrologThatFailsAtItsLastStepIsUndoneAndTheRequeuedJobSucceeds(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	vm.ShortCredentials(t)
	before := vm.Picture(t)
	if err := os.WriteFile("/tmp/prolog", []byte(strings.ReplaceAll(wrapper, "REPO", vm.Repo())), 0o755); err != nil {
		t.Fatal(err)
	}
	vm.Run(t, "cp /etc/slurm/slurm.conf /tmp/slurm.conf && sed -i 's|^Prolog=.*|Prolog=/tmp/prolog|' /etc/slurm/slurm.conf && scontrol reconfigure")
	defer vm.Run(t, "cp /tmp/slurm.conf /etc/slurm/slurm.conf && scontrol reconfigure")

	job := vm.Submit(t, "alice", "--requeue --gres=nic:2", "srun bash -c 'echo hcas $GRESNET_HCAS'")
	vm.Eventually(t, "the node is drained by the prolog's failure", func() bool {
		out, _ := vm.Try("scontrol show node node1")
		return strings.Contains(out, "DRAIN") && strings.Contains(out, "Prolog error")
	})
	vm.Eventually(t, "the job is requeued and held", func() bool {
		out, _ := vm.Try("squeue -h -j " + job + " -o '%T %r'")
		return strings.Contains(out, "PENDING")
	})
	if text := vm.Run(t, "cat /tmp/strace.out"); !strings.Contains(text, "INJECTED") {
		t.Fatalf("the fault was not injected: %s", text)
	}
	log := vm.Run(t, "cat /var/log/slurmd.log")
	if !strings.Contains(log, "write the lease: ") || !strings.Contains(log, "input/output error") {
		t.Errorf("slurmd's log does not say why:\n%s", log)
	}
	vm.Eventually(t, "the failed run's epilog has run", vm.NoLease)
	vm.Same(t, before)

	vm.Run(t, "scontrol update nodename=node1 state=resume; scontrol release "+job)
	vm.Ended(t, job)
	if out := vm.Run(t, "cat /tmp/"+job+".out"); !strings.Contains(out, "hcas ibfake") {
		t.Errorf("the second run printed %q", out)
	}
	vm.Same(t, before)
}

func TestTheSameRunAgainChangesNothing(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900001 SLURM_JOB_GPUS=0,1"
	if out, code := vm.ByHand(t, "prolog", job); code != 0 || out != "" {
		t.Fatalf("prolog: %d %s", code, out)
	}
	restrictNodes(t)
	held := vm.Picture(t) + vm.Run(t, "stat -c '%i %y' /run/gresnet/jobs/900001/*")
	if out, code := vm.ByHand(t, "prolog", job); code != 0 || out != "" {
		t.Fatalf("prolog again: %d %s", code, out)
	}
	if again := vm.Picture(t) + vm.Run(t, "stat -c '%i %y' /run/gresnet/jobs/900001/*"); again != held {
		t.Errorf("the second prolog changed the node or the lease")
	}
	for range 2 {
		if out, code := vm.ByHand(t, "epilog", job); code != 0 || out != "" {
			t.Fatalf("epilog: %d %s", code, out)
		}
		vm.Same(t, before)
	}
}

func TestALeaseOfAnEarlierRunIsRolledBackFirstAndOneOfALaterRunLeftAlone(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900002 SLURM_JOB_GPUS=0 "
	for _, run := range []string{"SLURM_JOB_RESTART_COUNT=0", "SLURM_JOB_RESTART_COUNT=1"} {
		if out, code := vm.ByHand(t, "prolog", job+run); code != 0 || out != "" {
			t.Fatalf("prolog %s: %d %s", run, code, out)
		}
	}
	later := vm.Run(t, "cat /run/gresnet/jobs/900002/env")
	if !strings.Contains(later, "GRESNET_RUN=1\n") {
		t.Fatalf("the lease is %s", later)
	}
	if out, code := vm.ByHand(t, "epilog", job+"SLURM_JOB_RESTART_COUNT=0"); code != 0 || out != "" {
		t.Errorf("epilog of the earlier run: %d %s", code, out)
	}
	if now := vm.Run(t, "cat /run/gresnet/jobs/900002/env"); now != later {
		t.Errorf("the earlier run's epilog changed the later run's lease:\n%s", now)
	}
	if out, code := vm.ByHand(t, "epilog", job+"SLURM_JOB_RESTART_COUNT=1"); code != 0 || out != "" {
		t.Errorf("epilog of the later run: %d %s", code, out)
	}
	vm.Same(t, before)
}

func TestWhatGoesWrongIsOneClearLineAndANodeAsItWas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	if out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900010 SLURM_JOB_GPUS=0"); code != 0 {
		t.Fatalf("prolog: %d %s", code, out)
	}
	restrictNodes(t)
	held := vm.Picture(t)
	tests := []struct {
		name, setup, job, want string
		code                   int
	}{
		{"an HCA that the node lacks", "sed -i s/rdma=" + names[1] + "/rdma=mlx5_77/ /etc/gresnet/gresnet.toml", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", "mlx5_77", 1},
		{"a read-only /run", "mount -t tmpfs -o ro none /run/gresnet", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", "read-only file system", 1},
		{"an unknown key", "sed -i s/source/sauce/ /etc/gresnet/gresnet.toml", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", `unknown key`, 1},
		{"a job id that is a path", "", "SLURM_JOB_ID=../x", "SLURM_JOB_ID", 1},
	}
	saved := vm.Run(t, "cat /etc/gresnet/gresnet.toml")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vm.Run(t, "true; "+tt.setup)
			out, code := vm.ByHand(t, "prolog", tt.job)
			vm.Run(t, "! mountpoint -q /run/gresnet || umount /run/gresnet")
			vm.WriteConfig(t, saved)
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, wanted %d and %q:\n%s", code, tt.code, tt.want, out)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 2 || !strings.HasPrefix(lines[0], "gresnet-prolog: ") || !strings.HasPrefix(lines[1], "gresnet-prolog: hint: ") {
				t.Errorf("wanted one line and its hint:\n%s", out)
			}
			vm.Same(t, held)
		})
	}
	if out, code := vm.ByHand(t, "epilog", "SLURM_JOB_ID=900010"); code != 0 || out != "" {
		t.Errorf("epilog: %d %s", code, out)
	}
	vm.Same(t, before)
}

func TestWhatTheJobAskedWronglyIsARefusedLease(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, `
[slurm]
source = ["policy"]
[[hca]]
index = 0
match = "rdma=`+vm.HCAs(t)[0]+`"
[[policy]]
count = 3
`)
	defer vm.WriteConfig(t, vm.Config)
	// The policy gives more HCAs than the mapping has: were it Slurm that does, it were the node's fault.
	job := vm.Submit(t, "alice", "--gres=nic:3", "srun hostname")
	vm.Ended(t, job)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	if !strings.Contains(out, "gresnet") || !strings.Contains(out, "nic") || strings.Contains(out, "node1\n") {
		t.Errorf("the job says:\n%s", out)
	}
	if state := vm.Run(t, "sinfo -h -o %T"); strings.Contains(state, "drain") {
		t.Errorf("the node is %s", state)
	}
	vm.Same(t, before)
}

func TestAJobThatAPolicyGivesMoreThanIsFreeIsRefusedAndTheNodeStaysUp(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = %d\n", len(vm.HCAs(t))))
	defer vm.WriteConfig(t, vm.Config)
	first := vm.Submit(t, "alice", "", "srun sleep 600")
	vm.Eventually(t, "the first job has its HCAs", func() bool { return vm.HasStep(first) })
	second := vm.Submit(t, "bob", "", "srun hostname")
	vm.Ended(t, second)
	out := vm.Run(t, "cat /tmp/"+second+".out")
	if !strings.Contains(out, "which source policy says the job has: 0 of ") || !strings.Contains(out, "job "+first+" has it since") || strings.Contains(out, "node1\n") {
		t.Errorf("the job says:\n%s", out)
	}
	if state := vm.Run(t, "sinfo -h -o %T"); strings.Contains(state, "drain") {
		t.Errorf("the node is %s", state)
	}
	if !vm.HasStep(first) {
		t.Error("the first job's step has ended")
	}
	vm.Cancel(t, first)
	vm.Same(t, before)
}

// The mode tells what is to be moved: it is never guessed.
func TestAModeThatCannotBeReadIsTheNodesFault(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900012 SLURM_JOB_GPUS=0"
	// RDMA_NLDEV_CMD_SYS_GET to RDMA_NL_NLDEV, see rdma_netlink.h
	asks := regexp.MustCompile(`sendto\(.*nlmsg_type=0x1406.*`)
	inject := ""
	for range 10 {
		out, code := vm.Traced(t, "prolog", job, inject)
		log, err := os.ReadFile(vm.TraceFile)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(asks.FindString(string(log)), "(INJECTED)") {
			if code != 1 || !regexp.MustCompile(`^gresnet-prolog: .*netns mode.*operation not permitted \[GN001\]\ngresnet-prolog: hint: .*\n$`).MatchString(out) {
				t.Errorf("exit %d: %s", code, out)
			}
			vm.Same(t, before)
			return
		}
		// Go may deal its work to threads in another way the next time.
		vm.Must(t, "epilog", job)
		for _, d := range vm.Calls(log) {
			if asks.MatchString(d.Call + "(" + d.What) {
				inject = fmt.Sprintf("-e inject=sendto:error=EPERM:when=%d", d.N)
			}
		}
	}
	t.Fatalf("the prolog was never kept from asking for the mode, with %q", inject)
}

// restrictNodes restricts the device nodes that moves have made again, as the package's rule for
// udev does, and else the next prolog.
func restrictNodes(t *testing.T) {
	t.Helper()
	vm.Run(t, "udevadm settle; "+vm.Repo()+"/bin/gresnet close")
}
