// Package mlx5 tests what only a driver of real hardware does: the kernel's own mlx5_core and mlx5_ib, on the
// firmware of test/mlx5fw.
package mlx5

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }

// The firmware's log, and where it takes orders.
const (
	firmwareLog = "/run/vm/mlx5fw.log"
	orders      = "/run/vm/control"
)

// all is a job that has all HCAs, and first one that has the first, of RoCE.
const (
	all   = "SLURM_JOB_ID=900200 SLURM_NODELIST=node1 SLURM_JOB_GPUS=0,1,2,3,4"
	first = "SLURM_JOB_ID=900201 SLURM_NODELIST=node1 SLURM_JOB_GPUS=0"
)

// HCA is one of the node's.
type hca struct{ name, net, pci string }

// begin gives each GPU an HCA, those of RoCE first, and returns them. At its end it holds the firmware to have known
// all that the driver asked of it.
func begin(t *testing.T) (hcas []hca) {
	t.Helper()
	vm.Slurm(t)
	said := unknown(t)
	t.Cleanup(func() {
		for _, line := range unknown(t) {
			if !slices.Contains(said, line) {
				t.Errorf("the firmware says: %s", line)
			}
		}
	})
	text := "[slurm]\nsource = [\"gpu\"]\n[access]\nrdma_cm = true\n"
	for _, line := range strings.Split(strings.TrimSpace(vm.Run(t, "for d in /sys/class/infiniband/*; do echo $(basename $d) $(ls $d/device/net) $(basename $(readlink -f $d/device)); done")), "\n") {
		f := strings.Fields(line)
		hcas = append(hcas, hca{f[0], f[1], f[2]})
	}
	slices.SortStableFunc(hcas, func(a, b hca) int { return -strings.Compare(a.name[:2], b.name[:2]) })
	for i, h := range hcas {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%[1]d]\n", i, h.name)
	}
	vm.WriteConfig(t, text)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	for _, h := range hcas {
		carrier(t, h)
	}
	return hcas
}

// carrier waits until the interface of an HCA has one.
func carrier(t *testing.T, h hca) {
	t.Helper()
	vm.Eventually(t, h.net+" has a carrier", func() bool {
		text, _ := os.ReadFile("/sys/class/net/" + h.net + "/carrier")
		return string(text) == "1\n"
	})
}

// unknown returns the lines of the firmware's log about what no driver should ask of it.
func unknown(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(firmwareLog)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\S+ \d: (unknown|fault:|[A-Z_0-9]+: no ).*`).FindAllString(string(text), -1)
}

// order has the firmware do something, and waits until it says that it did.
func order(t *testing.T, what string) {
	t.Helper()
	count := func() int {
		text, _ := os.ReadFile(firmwareLog)
		return strings.Count(string(text), " "+what+"\n")
	}
	before := count()
	vm.Run(t, "echo "+what+" >>"+orders)
	vm.Eventually(t, "the firmware does "+what, func() bool { return count() > before })
}

// register returns what the driver has written to a register of the HCA with that number.
func register(t *testing.T, n int, name string) string {
	t.Helper()
	order(t, fmt.Sprintf("show %d", n))
	text, err := os.ReadFile(firmwareLog)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)%d: register \S+ %s (\S+)$`, n, name)).FindAllStringSubmatch(string(text), -1)
	if found == nil {
		return ""
	}
	return found[len(found)-1][1]
}
