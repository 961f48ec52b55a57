package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// wrapper stands in for Prolog= and makes a job's first run fail where a lease
// becomes one, at its very last system call; later runs are left alone.
const wrapper = `#!/bin/bash
[ "$SLURM_JOB_RESTART_COUNT" = 0 ] || exec REPO/bin/gresnet-prolog
exec /usr/bin/strace -f -qq -o /tmp/strace.out -e trace=rename,renameat,renameat2 \
	-P /run/gresnet/jobs/$SLURM_JOB_ID/env.new -e inject=rename,renameat,renameat2:error=EIO REPO/bin/gresnet-prolog
`

func TestAPrologThatFailsAtItsLastStepIsUndoneAndTheRequeuedJobSucceeds(t *testing.T) {
	slurm(t)
	before := picture(t)
	if err := os.WriteFile("/tmp/prolog", []byte(strings.ReplaceAll(wrapper, "REPO", repo())), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "cp /etc/slurm/slurm.conf /tmp/slurm.conf && sed -i 's|^Prolog=.*|Prolog=/tmp/prolog|' /etc/slurm/slurm.conf && scontrol reconfigure")
	defer run(t, "cp /tmp/slurm.conf /etc/slurm/slurm.conf && scontrol reconfigure")

	job := submit(t, "alice", "--requeue --gres=nic:2", "srun bash -c 'echo hcas $GRESNET_HCAS'")
	eventually(t, "the node is drained by the prolog's failure", func() bool {
		out, _ := try("scontrol show node node1")
		return strings.Contains(out, "DRAIN") && strings.Contains(out, "Prolog error")
	})
	eventually(t, "the job is requeued and held", func() bool {
		out, _ := try("squeue -h -j " + job + " -o '%T %r'")
		return strings.Contains(out, "PENDING")
	})
	if text := run(t, "cat /tmp/strace.out"); !strings.Contains(text, "INJECTED") {
		t.Fatalf("the fault was not injected: %s", text)
	}
	log := run(t, "cat /var/log/slurmd.log")
	if !strings.Contains(log, "write the lease: ") || !strings.Contains(log, "input/output error") {
		t.Errorf("slurmd's log does not say why:\n%s", log)
	}
	eventually(t, "the failed run's epilog has run", noLease)
	same(t, before)

	run(t, "scontrol update nodename=node1 state=resume; scontrol release "+job)
	ended(t, job)
	if out := run(t, "cat /tmp/"+job+".out"); !strings.Contains(out, "hcas ibfake") {
		t.Errorf("the second run printed %q", out)
	}
	same(t, before)
}

// slurmdEnv is what slurmd gives a Prolog of a job of alice's.
const slurmdEnv = "env -i SLURMD_NODENAME=node1 SLURM_CONF=/etc/slurm/slurm.conf SLURM_JOB_UID=1000 SLURM_JOB_GID=1000 SLURM_JOB_USER=alice SLURM_JOB_RESTART_COUNT=0 SLURM_SCRIPT_CONTEXT=prolog_slurmd "

// byHand runs the prolog or the epilog as slurmd would, and returns what it
// says and its exit code.
func byHand(t *testing.T, program, environment string) (string, int) {
	t.Helper()
	out, _ := try("rc=0; " + slurmdEnv + environment + " " + repo() + "/bin/gresnet-" + program + " 2>&1 || rc=$?; echo \"exit $rc\"")
	end := strings.LastIndex(out, "exit ") // what it says may have an exit status in it
	if end < 0 {
		t.Fatalf("%s: %s", program, out)
	}
	return out[:end], atoi(out[end+len("exit "):])
}

// gpuConfig maps GPUs to HCAs, so that tests can say what a job gets without asking slurmctld.
const gpuConfig = `
[slurm]
source = ["gpu"]
[[hca]]
index = 0
match = "rdma=HCA0"
gpus = [0]
[[hca]]
index = 1
match = "rdma=HCA1"
gpus = [1]
`

// hcas are the RDMA devices of the node, the names of those that are away not among them.
func hcas(t *testing.T) []string {
	t.Helper()
	return strings.Fields(run(t, "rdma -j dev | jq -r '.[].ifname' | sort -V"))
}

func withGPUs(t *testing.T) (names []string) {
	t.Helper()
	slurm(t)
	names = hcas(t)
	writeConfig(t, strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(gpuConfig))
	t.Cleanup(func() { writeConfig(t, config) })
	return names
}

func TestTheSameRunAgainChangesNothing(t *testing.T) {
	withGPUs(t)
	before := picture(t)
	const job = "SLURM_JOB_ID=900001 SLURM_JOB_GPUS=0,1"
	if out, code := byHand(t, "prolog", job); code != 0 || out != "" {
		t.Fatalf("prolog: %d %s", code, out)
	}
	closeNodes(t)
	held := picture(t) + run(t, "stat -c '%i %y' /run/gresnet/jobs/900001/*")
	if out, code := byHand(t, "prolog", job); code != 0 || out != "" {
		t.Fatalf("prolog again: %d %s", code, out)
	}
	if again := picture(t) + run(t, "stat -c '%i %y' /run/gresnet/jobs/900001/*"); again != held {
		t.Errorf("the second prolog changed the node or the lease")
	}
	for range 2 {
		if out, code := byHand(t, "epilog", job); code != 0 || out != "" {
			t.Fatalf("epilog: %d %s", code, out)
		}
		same(t, before)
	}
}

func TestALeaseOfAnEarlierRunIsUnwoundFirstAndOneOfALaterRunLeftAlone(t *testing.T) {
	withGPUs(t)
	before := picture(t)
	const job = "SLURM_JOB_ID=900002 SLURM_JOB_GPUS=0 "
	for _, run := range []string{"SLURM_JOB_RESTART_COUNT=0", "SLURM_JOB_RESTART_COUNT=1"} {
		if out, code := byHand(t, "prolog", job+run); code != 0 || out != "" {
			t.Fatalf("prolog %s: %d %s", run, code, out)
		}
	}
	later := run(t, "cat /run/gresnet/jobs/900002/env")
	if !strings.Contains(later, "GRESNET_RUN=1\n") {
		t.Fatalf("the lease is %s", later)
	}
	if out, code := byHand(t, "epilog", job+"SLURM_JOB_RESTART_COUNT=0"); code != 0 || out != "" {
		t.Errorf("epilog of the earlier run: %d %s", code, out)
	}
	if now := run(t, "cat /run/gresnet/jobs/900002/env"); now != later {
		t.Errorf("the earlier run's epilog changed the later run's lease:\n%s", now)
	}
	if out, code := byHand(t, "epilog", job+"SLURM_JOB_RESTART_COUNT=1"); code != 0 || out != "" {
		t.Errorf("epilog of the later run: %d %s", code, out)
	}
	same(t, before)
}

// impatient has a prolog not wait long for a job that has no step yet.
const impatient = `printf '[deadline]\nprolog = "10s"\n' >>/etc/gresnet/gresnet.toml`

func TestWhatGoesWrongIsOneClearLineAndANodeAsItWas(t *testing.T) {
	names := withGPUs(t)
	before := picture(t)
	if out, code := byHand(t, "prolog", "SLURM_JOB_ID=900010 SLURM_JOB_GPUS=0"); code != 0 {
		t.Fatalf("prolog: %d %s", code, out)
	}
	closeNodes(t)
	held := picture(t)
	tests := []struct {
		name, setup, job, want string
		code                   int
	}{
		{"an HCA that a job has", impatient, "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=0", "claim HCAs for job 900011: " + names[0] + " (nic 0): job 900010 has it since", 1},
		{"an HCA that the node lacks", "sed -i s/rdma=" + names[1] + "/rdma=mlx5_77/ /etc/gresnet/gresnet.toml", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", "mlx5_77", 1},
		{"a read-only /run", "mount -t tmpfs -o ro none /run/gresnet", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", "read-only file system", 1},
		{"an unknown key", "sed -i s/source/sauce/ /etc/gresnet/gresnet.toml", "SLURM_JOB_ID=900011 SLURM_JOB_GPUS=1", `unknown key`, 1},
		{"a job id that is a path", "", "SLURM_JOB_ID=../x", "SLURM_JOB_ID", 1},
	}
	saved := run(t, "cat /etc/gresnet/gresnet.toml")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, "true; "+tt.setup)
			out, code := byHand(t, "prolog", tt.job)
			run(t, "! mountpoint -q /run/gresnet || umount /run/gresnet")
			writeConfig(t, saved)
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, wanted %d and %q:\n%s", code, tt.code, tt.want, out)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 2 || !strings.HasPrefix(lines[0], "gresnet-prolog: ") || !strings.HasPrefix(lines[1], "gresnet-prolog: hint: ") {
				t.Errorf("wanted one line and its hint:\n%s", out)
			}
			same(t, held)
		})
	}
	if out, code := byHand(t, "epilog", "SLURM_JOB_ID=900010"); code != 0 || out != "" {
		t.Errorf("epilog: %d %s", code, out)
	}
	same(t, before)
}

func TestWhatTheJobAskedWronglyIsARefusedLease(t *testing.T) {
	slurm(t)
	before := picture(t)
	writeConfig(t, `
[slurm]
source = ["policy"]
[[hca]]
index = 0
match = "rdma=`+hcas(t)[0]+`"
[[policy]]
count = 3
`)
	defer writeConfig(t, config)
	// The policy gives more HCAs than the mapping has: were it Slurm that does, it were the node's fault.
	job := submit(t, "alice", "--gres=nic:3", "srun hostname")
	ended(t, job)
	out := run(t, "cat /tmp/"+job+".out")
	if !strings.Contains(out, "gresnet") || !strings.Contains(out, "nic") || strings.Contains(out, "node1\n") {
		t.Errorf("the job says:\n%s", out)
	}
	if state := run(t, "sinfo -h -o %T"); strings.Contains(state, "drain") {
		t.Errorf("the node is %s", state)
	}
	same(t, before)
}

func TestAJobThatAPolicyGivesMoreThanIsFreeIsRefusedAndTheNodeStaysUp(t *testing.T) {
	slurm(t)
	before := picture(t)
	writeConfig(t, fmt.Sprintf("[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = %d\n", len(hcas(t))))
	defer writeConfig(t, config)
	first := submit(t, "alice", "", "srun sleep 600")
	eventually(t, "the first job has its HCAs", func() bool { return hasStep(first) })
	second := submit(t, "bob", "", "srun hostname")
	ended(t, second)
	out := run(t, "cat /tmp/"+second+".out")
	if !strings.Contains(out, "which source policy says the job has: 0 of ") || !strings.Contains(out, "job "+first+" has it since") || strings.Contains(out, "node1\n") {
		t.Errorf("the job says:\n%s", out)
	}
	if state := run(t, "sinfo -h -o %T"); strings.Contains(state, "drain") {
		t.Errorf("the node is %s", state)
	}
	if !hasStep(first) {
		t.Error("the first job's step has ended")
	}
	cancel(t, first)
	same(t, before)
}

// The mode tells what is to be moved: it is never guessed.
func TestAModeThatCannotBeReadIsTheNodesFault(t *testing.T) {
	withGPUs(t)
	before := picture(t)
	const job = "SLURM_JOB_ID=900012 SLURM_JOB_GPUS=0"
	// RDMA_NLDEV_CMD_SYS_GET to RDMA_NL_NLDEV, see rdma_netlink.h
	asks := regexp.MustCompile(`sendto\(.*nlmsg_type=0x1406.*`)
	inject := ""
	for range 10 {
		out, code := traced(t, "prolog", job, inject)
		log, err := os.ReadFile(traceFile)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(asks.FindString(string(log)), "(INJECTED)") {
			if code != 1 || !regexp.MustCompile(`^gresnet-prolog: .*netns mode.*operation not permitted\ngresnet-prolog: hint: .*\n$`).MatchString(out) {
				t.Errorf("exit %d: %s", code, out)
			}
			same(t, before)
			return
		}
		// Go may deal its work to threads in another way the next time.
		must(t, "epilog", job)
		for _, d := range calls(log) {
			if asks.MatchString(d.call + "(" + d.what) {
				inject = fmt.Sprintf("-e inject=sendto:error=EPERM:when=%d", d.n)
			}
		}
	}
	t.Fatalf("the prolog was never kept from asking for the mode, with %q", inject)
}
