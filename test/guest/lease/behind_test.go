package lease

import (
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const behindJob = "SLURM_JOB_ID=900174 SLURM_JOB_GPUS=1"

// An epilog ends when no process has its output any more, for slurmd as for this test.
func TestSlurmdGoesOnWhileAnEpilogWorksAndWhoWantsItsHCAsWaits(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	withRoCE(t)
	config, err := os.ReadFile("/etc/gresnet/gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	vm.WriteConfig(t, string(config)+"[deadline]\nepilog_behind = true\n")
	before := vm.Picture(t)
	const work = "[g]resnet-epilog.*--behind" // not the shell that looks
	for _, ends := range []string{"by itself", "by kill -9"} {
		vm.Must(t, "prolog", vm.LawJob)
		training(t, 3600000)
		if out, code := vm.ByHand(t, "epilog", vm.LawJob); code != 0 || out != "" {
			t.Errorf("ends %s: exit %d: %s", ends, code, out)
		}
		if pid := vm.Run(t, "pgrep -f '"+work+"' || true"); strings.Count(pid, "\n") != 1 {
			t.Errorf("ends %s: behind there is %q", ends, pid)
		}
		if _, err := os.Stat("/run/gresnet/jobs/900030"); err != nil {
			t.Errorf("ends %s: the lease has ended, and no link is up: %v", ends, err)
		}
		training(t, 0)
		if ends == "by kill -9" {
			vm.Run(t, "pkill -KILL -f '"+work+"'")
		}
		for _, job := range []string{behindJob, vm.LawJob} { // of the latter, links are brought up again, that did not train
			if out, code := vm.ByHand(t, "prolog", job); code != 0 {
				t.Fatalf("ends %s: prolog of %s: exit %d: %s", ends, job, code, out)
			}
			vm.WriteConfig(t, string(config))
			if out, code := vm.ByHand(t, "epilog", job); code != 0 {
				t.Fatalf("ends %s: epilog of %s: exit %d: %s", ends, job, code, out)
			}
		}
		vm.Eventually(t, "the kernel says that the links are up, which it does once a second", func() bool {
			out, err := vm.Try("ip link show up | grep -c 'roce.*NO-CARRIER'")
			return err != nil && strings.TrimSpace(out) == "0"
		})
		vm.WriteConfig(t, string(config)+"[deadline]\nepilog_behind = true\n")
		vm.Same(t, before)
	}
}
