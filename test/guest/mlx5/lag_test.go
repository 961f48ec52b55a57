package mlx5

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// TestAPrologSaysThatAnotherFunctionHasTheRDMADeviceOfALAG has mlx5's driver make one RDMA device of a card's functions,
// as it does when their interfaces come into a bond.
func TestAPrologSaysThatAnotherFunctionHasTheRDMADeviceOfALAG(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.MLX5)
	hcas := begin(t)
	var pair []hca
	for _, h := range hcas {
		if strings.Contains(h.name, "f0") || strings.Contains(h.name, "f1") {
			pair = append(pair, h)
		}
	}
	if out := vm.Run(t, "ip -d link show "+hcas[0].net); !strings.Contains(out, "parentdev") {
		t.Skip("before Linux 5.14 the kernel does not name the PCI function of an interface, and the prolog says GN196")
	}
	if len(pair) != 2 {
		t.Fatalf("no card has two functions: %v", hcas)
	}
	verbs := func() string {
		return vm.Run(t, fmt.Sprintf("udevadm settle; (ls -d /sys/bus/pci/devices/{%s,%s}/infiniband 2>/dev/null || true) | wc -l", pair[0].pci, pair[1].pci))
	}
	newest := func() int { return vm.Atoi(vm.Run(t, "rdma dev | cut -d: -f1 | sort -n | tail -n 1")) }
	before := newest()
	t.Cleanup(func() {
		for _, h := range pair {
			vm.Run(t, "ip link set "+h.net+" nomaster")
		}
		vm.Run(t, "ip link del bond0")
		vm.Eventually(t, "each function has its RDMA device again", func() bool { return verbs() == "2\n" })
		vm.Run(t, vm.GiveAddresses+vm.Repo()+"/bin/gresnet close")
	})
	vm.Run(t, "modprobe bonding max_bonds=0; ip link add bond0 type bond mode active-backup miimon 100; ip link set bond0 up")
	for _, h := range pair {
		vm.Run(t, "ip link set "+h.net+" down; ip link set "+h.net+" master bond0")
	}
	// The driver takes away one of the two before the other, and then makes that of both.
	vm.Eventually(t, "the functions have one RDMA device, which is new", func() bool { return verbs() == "1\n" && newest() > before })
	has := strings.TrimSpace(vm.Run(t, fmt.Sprintf("(ls -d /sys/bus/pci/devices/{%s,%s}/infiniband 2>/dev/null || true) | cut -d/ -f6", pair[0].pci, pair[1].pci)))
	one, other := pair[0], pair[1]
	if one.pci != has {
		one, other = other, one
	}
	vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"pci=%s\"\ngpus = [0]\n", other.pci))
	out, code := vm.ByHand(t, "prolog", first)
	vm.NodesFault(t, out, code, other.net+" is in a bond with "+one.net+", which has the RDMA device of both (RoCE LAG)")
}
