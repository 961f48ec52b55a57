package pci

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// onPCI returns the names of the HCAs that are on PCI functions, in the order of these.
func onPCI(t *testing.T) []string {
	t.Helper()
	return strings.Fields(vm.Run(t, "for d in /sys/bus/pci/drivers/ibfake/0000:*; do ls $d/infiniband; done"))
}

// udev names an RDMA device after the place of its PCI function, also when it comes back.
func TestHCAsThatUdevNamesAfterTheirPlaceGoToAJobAndBack(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short, vm.PCI)
	vm.WithHCAs(t, "")
	names := onPCI(t)[:2]
	if slices.ContainsFunc(names, func(name string) bool { return !regexp.MustCompile(`^rocep\d+s\d+$`).MatchString(name) }) {
		t.Fatalf("the HCAs are called %q", names)
	}
	vm.Shape{HCAs: names, Ports: 1, Interfaces: 1, UMAD: 1}.GoesToAJobAndBack(t)
}

// As on Azure: a VM has VFs, and their PFs are its host's. IPoIB's interface has the name of its RDMA device.
func TestInfiniBandHCAsWithoutAPFGoToAJobAndBack(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short, vm.PCI)
	vm.WithHCAs(t, "eduib=Y")
	names := onPCI(t)[:2]
	if out := vm.Run(t, "ls -d /sys/bus/pci/drivers/ibfake/0000:*/physfn 2>/dev/null || true"); out != "" {
		t.Fatalf("the HCAs have PFs: %s", out)
	}
	vm.Shape{HCAs: names, Ports: 1, Interfaces: 1, UMAD: 1}.GoesToAJobAndBack(t)
}

// A job has both HCAs of a function, or one of them and the node keeps the other one.
func TestSeveralHCAsOfOneFunctionGoToAJobAndBack(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short, vm.PCI)
	vm.WithHCAs(t, "devices=2")
	names := onPCI(t)[:2]
	if places := vm.Run(t, "cd /sys/class/infiniband; readlink -f "+names[0]+"/device "+names[1]+"/device | sort -u"); strings.Count(places, "\n") != 1 {
		t.Fatalf("they are at\n%s", places)
	}
	shape := vm.Shape{HCAs: names, Ports: 1, Interfaces: 1, UMAD: 1}
	shape.GoesToAJobAndBack(t)
	for _, name := range names {
		shape.HCAs = []string{name}
		t.Run(name, func(t *testing.T) { shape.GoesToAJob(t) })
	}
}
