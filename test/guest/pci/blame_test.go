package pci

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

func TestOnPCIAGPUThatTheNodeDoesNotHaveIsTheJobsFault(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.PCI)
	if vm.Run(t, "ls -d /sys/bus/pci/drivers/ibfake/0000:* 2>/dev/null || true") == "" {
		netnstest.Skip(t, "needs HCAs on PCI: run the VM with --pci")
	}
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n")
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	out, code := vm.ByHand(t, "prolog", vm.FaultyJob+" SLURM_JOB_GPUS=0,9")
	env := vm.Run(t, "cat /run/gresnet/jobs/900110/env")
	if code != 0 || !strings.Contains(env, "GRESNET_REFUSED=the HCAs for GPUs 0,9: there is no GPU 9, the node has 4") {
		t.Errorf("exit %d: %s\n%s", code, out, env)
	}
	vm.Must(t, "epilog", vm.FaultyJob)
	vm.Same(t, before)
}
