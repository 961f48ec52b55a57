package pci

import (
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

func TestOnPCIAnIndexMeansTheSameHCAAfterReloadingReorderingAndRenaming(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.PCI)
	if vm.Run(t, "ls -d /sys/bus/pci/drivers/ibfake/0000:* 2>/dev/null || true") == "" {
		netnstest.Skip(t, "needs HCAs on PCI: run the VM with --pci")
	}
	vm.Slurm(t)
	vm.KeepTheirIndices(t, "pci")
}
