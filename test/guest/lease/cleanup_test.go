package lease

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

const cleanupJob = "SLURM_JOB_ID=900050 SLURM_JOB_GPUS=0"

// mark does what the SPANK plugin does when the job's extern step starts.
func mark(t *testing.T) {
	t.Helper()
	vm.Run(t, "touch /run/gresnet/jobs/900050/extern")
}

func TestACleanupReturnsTheLeaseOfAJobThatIsGone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", cleanupJob)
	mark(t)
	if out, code := vm.Command(t, "gresnet cleanup"); code != 0 || out != "" {
		t.Errorf("exit %d: %s", code, out)
	}
	vm.Same(t, before)
}

func TestACleanupNeverTouchesALiveJobsLease(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", cleanupJob)
	defer func() {
		vm.Must(t, "epilog", cleanupJob)
		vm.Same(t, before)
	}()
	var leased string
	refuses := func(why string) {
		t.Helper()
		for _, line := range []string{"gresnet cleanup 900050", "gresnet cleanup --boot 900050"} {
			if out, code := vm.Command(t, line); code != 1 || !strings.Contains(out, why) {
				t.Errorf("%s: exit %d, wanted %q:\n%s", line, code, why, out)
			}
		}
		if out, code := vm.Command(t, "gresnet cleanup"); code != 0 || out != "" {
			t.Errorf("exit %d: %s", code, out)
		}
		vm.Same(t, leased)
	}

	if out, code := vm.Command(t, "gresnet cleanup 900050"); code != 1 || !strings.Contains(out, "it may be about to start") {
		t.Errorf("a young lease without an extern step: exit %d: %s", code, out)
	}
	mark(t)
	leased = vm.Picture(t)

	held := exec.Command("flock", "/run/gresnet/locks/job-900050", "cat", "/proc/self/comm", "-")
	release := standin.Start(t, held)
	refuses("a prolog or an epilog of it is running")
	release()

	release = standin.Start(t, vm.InNamespace("/run/gresnet/jobs/900050/netns"))
	refuses("cat (pid")
	release()

	step := exec.Command("bash", "-c", `exec -a "slurmstepd: [900050.extern]" cat /proc/self/comm -`)
	release = standin.Start(t, step)
	refuses("is its step")
	release()
}

func TestAPrologTakesTheHCAOfAJobThatIsGone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	for name, config := range map[string]string{
		"that hangs on its GPU": "",
		"that it counts":        fmt.Sprintf("--config %s ", vm.SiteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = %d\n", len(names)))),
	} {
		t.Run(name, func(t *testing.T) {
			vm.Must(t, "prolog", cleanupJob)
			mark(t)
			const next = "SLURM_JOB_ID=900051 SLURM_JOB_GPUS=0"
			vm.Run(t, vm.SlurmdEnv+next+" "+vm.Repo()+"/bin/gresnet-prolog "+config)
			if _, err := os.Stat("/run/gresnet/jobs/900050"); !os.IsNotExist(err) {
				t.Errorf("the lease of the job that is gone: %v", err)
			}
			vm.Run(t, "grep -q ^GRESNET_HCAS=.*"+names[0]+" /run/gresnet/jobs/900051/env")
			vm.Must(t, "epilog", next)
			vm.Same(t, before)
		})
	}
}

func TestAPrologWaitsForTheEpilogThatStillHasItsHCA(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", cleanupJob)
	mark(t)
	// Something holds up the epilog, while the next job's prolog is there already.
	release := standin.Start(t, exec.Command("flock", "/run/gresnet/locks/job-900050", "cat", "/proc/self/comm", "-"))
	const next = "SLURM_JOB_ID=900051 SLURM_JOB_GPUS=0"
	ends := []func() (string, int){vm.Begin(t, "epilog", cleanupJob), vm.Begin(t, "prolog", next)}
	vm.Eventually(t, "the prolog has tried", func() bool {
		out, _ := vm.Try("for p in $(pgrep -x gresnet-prolog; pgrep -x gresnet-epilog); do ls -l /proc/$p/fd; done | grep -c job-900050")
		return strings.TrimSpace(out) == "2"
	})
	release()
	for i, end := range ends {
		if out, code := end(); code != 0 || out != "" {
			t.Errorf("%s: exit %d %s", []string{"epilog", "prolog"}[i], code, out)
		}
	}
	vm.Must(t, "epilog", next)
	vm.Same(t, before)
}

func TestStatusShowsWhoHoldsWhat(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	if out, code := vm.Command(t, "gresnet status"); code != 0 || !strings.Contains(out, "no job has a lease") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	vm.Must(t, "prolog", cleanupJob)
	out, code := vm.Command(t, "gresnet status")
	for _, want := range []string{names[0] + "  nic 0", "leased", "900050", "complete"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
		}
	}
	t.Log("\n" + out)
	out, code = vm.Command(t, "gresnet status 900050")
	if code != 0 || !strings.Contains(out, "to be undone: namespace") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet status --json | jq -e '.hcas[] | select(.claim.job == 900050)'")
	vm.Must(t, "epilog", cleanupJob)
	vm.Same(t, before)
}

func TestAnHCAThatIsQuarantinedIsReleasedWhenItIsBack(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 1 || !strings.Contains(out, "no HCA of that name is quarantined") {
		t.Errorf("a free HCA: exit %d: %s", code, out)
	}
	vm.Must(t, "prolog", cleanupJob)
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 1 || !strings.Contains(out, "job 900050 has it") {
		t.Errorf("a leased HCA: exit %d: %s", code, out)
	}
	// Another interface has the name of the HCA's own.
	name := strings.TrimSpace(vm.Run(t, "nsenter --net=/run/gresnet/jobs/900050/netns ip -j link | jq -r '.[].ifname' | grep -v '^lo$'"))
	vm.Run(t, "ip link add "+name+" type dummy")
	out, code := vm.ByHand(t, "epilog", cleanupJob)
	if code != 2 || !strings.Contains(out, "another interface has that name") {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	if open := vm.Run(t, "udevadm settle; find /dev/infiniband -type c -name 'uverbs*' ! -perm 600"); open != "" {
		t.Errorf("everybody can open device nodes of the quarantined HCA:\n%s", open)
	}
	if out, _ := vm.Command(t, "gresnet status"); !strings.Contains(out, "quarantined") || !strings.Contains(out, "gresnet release "+names[0]) {
		t.Errorf("status:\n%s", out)
	}
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 0 || out != "" {
		t.Errorf("release: exit %d: %s", code, out)
	}
	free := vm.Run(t, "ip -j link | jq -r '.[].ifname' | grep ^gresnet")
	// It was released as it was; a new name would give its second address a label.
	vm.Run(t, fmt.Sprintf("ip link del %s; ip addr flush dev %s; ip link set %[2]s down; ip link set %[2]s name %[1]s", name, strings.TrimSpace(free)))
	vm.Run(t, vm.GiveAddresses)
	vm.Same(t, before)
}
