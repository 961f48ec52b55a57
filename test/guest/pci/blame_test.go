package pci

import (
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

func TestOnPCIAGPUThatTheNodeDoesNotHaveIsTheNodesFault(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.PCI)
	if vm.Run(t, "ls -d /sys/bus/pci/drivers/ibfake/0000:* 2>/dev/null || true") == "" {
		netnstest.Skip(t, "needs HCAs on PCI: run the VM with --pci")
	}
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n")
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	out, code := vm.ByHand(t, "prolog", vm.FaultyJob+" SLURM_JOB_GPUS=0,9")
	vm.NodesFault(t, out, code, "there is no GPU 9, the node has 4")
	vm.Same(t, before)
}
