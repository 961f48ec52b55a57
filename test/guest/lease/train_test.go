package lease

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// training has links take so many milliseconds to come up, until the test ends.
func training(t *testing.T, ms int) {
	t.Helper()
	const file = "/sys/module/ibfake/parameters/train"
	vm.Run(t, fmt.Sprintf("echo %d >%s", ms, file))
	t.Cleanup(func() { vm.Run(t, "echo 0 >"+file) })
}

// withRoCE maps GPUs 0 and 1 to the first and the last RoCE HCA, and tells the last one's interface.
func withRoCE(t *testing.T) (hca, name string) {
	t.Helper()
	vm.Slurm(t)
	links := strings.Fields(vm.Run(t, "rdma -j link | jq -r '.[] | select(.netdev) | .ifname + \" \" + .netdev' | grep ' roce' | sort -V | sed -n '1p;$p' | xargs"))
	vm.WriteConfig(t, strings.NewReplacer("HCA0", links[0], "HCA1", links[2]).Replace(vm.GPUConfig))
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	return links[2], links[3]
}

func TestLinksThatTrainAreTheJobsAndAreReturnedAsTheyWere(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	withRoCE(t)
	before := vm.Picture(t)
	training(t, 2500)
	vm.Must(t, "prolog", vm.InvariantJob)
	if out := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900030/netns ip -o link show up | grep -c 'roce.*LOWER_UP'"); strings.TrimSpace(out) != "2" {
		t.Errorf("of two interfaces that many have their carrier: %s", out)
	}
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)
}

func TestALinkThatDoesNotComeUpInTheJobIsNamed(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	hca, name := withRoCE(t)
	before := vm.Picture(t)
	training(t, 3600000)
	out, code := vm.ByHand(t, "prolog", vm.InvariantJob)
	if want := "warning: " + name + " (port 1 of " + hca + ") has no carrier in the job"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
	}
	training(t, 0)
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Eventually(t, "the kernel says that the link is up, which it does once a second", func() bool {
		out, err := vm.Try("ip link show up | grep -c 'roce.*NO-CARRIER'")
		return err != nil && strings.TrimSpace(out) == "0"
	})
	vm.Same(t, before)
}
