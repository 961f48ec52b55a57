package pci

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// The tree is test/vm/vm's pci_tree: of its two NUMA nodes, the first has one HCA
// for two GPUs, the second one for each.
func TestOnPCIAJobHasTheHCAsThatAreNearestToItsGPUs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.PCI)
	if vm.Run(t, "ls -d /sys/bus/pci/drivers/ibfake/0000:* 2>/dev/null || true") == "" {
		netnstest.Skip(t, "needs HCAs on PCI: run the VM with --pci")
	}
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	scan := vm.Run(t, vm.Repo()+`/bin/gresnet scan --json | jq -r '.gpus as $g | .hcas[] | "\(.numa) \(.distance | join(" ")): \(.serves | map($g[.].numa) | join(" "))"'`)
	const tree = `0 switch root system system: 0 0
1 system system switch root: 1
1 system system root root: 1
`
	if scan != tree {
		t.Fatalf("HCAs' NUMA nodes, distances to the GPUs, and the NUMA nodes of those that they serve:\n%swanted:\n%s", scan, tree)
	}
	before := vm.Picture(t)
	for _, c := range []struct{ partial, gpus, indices string }{
		{"none", "0", ""}, // the HCA serves the other GPU, too
		{"first", "0", "0"},
		{"none", "0,1", "0"},
		{"none", "2", "1"},
		{"none", "3", "2"},
		{"none", "1-3", "1 2"},
		{"none", "0-3", "0 1 2"},
	} {
		vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"gpu\"]\npartial = %q\n", c.partial))
		job := "SLURM_JOB_ID=900090 SLURM_JOB_GPUS=" + c.gpus
		vm.Must(t, "prolog", job)
		var indices []string
		for _, claim := range strings.Fields(vm.Claims(t, "900090")) {
			index, _, _ := strings.Cut(claim, "=")
			indices = append(indices, index)
		}
		if got := strings.Join(indices, " "); got != c.indices {
			t.Errorf("partial %q, GPUs %s: HCAs %q, wanted %q", c.partial, c.gpus, got, c.indices)
		}
		vm.Must(t, "epilog", job)
		vm.Same(t, before)
	}
}
