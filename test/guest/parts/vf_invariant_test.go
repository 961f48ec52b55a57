package parts

import (
	"testing"

	"gresnet/test/guest/vm"
)

// The PFs do more for the VFs while the job has them, one VF has an address of the job's own, and the
// node has settings of its own.
func TestAKillAnywhereLosesNothingOfVFsAndTheirPFs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\nvf = {vlan = 7, qos = 1, max_rate = 5000, trust = false}\n", "gpus = [2, 3]\nvf = {state = \"enable\"}\n"))
	vm.Run(t, "ip link set "+roceLink+" vf 1 vlan 100 qos 3 spoofchk on trust on")
	vm.Run(t, "for i in "+roceLink+"v1 $(ls /sys/bus/pci/devices/"+ibPF+"/virtfn1/net); do ip link set $i up; ip addr add 10.20.$((n = n + 1)).2/24 dev $i; done")
	const job = "SLURM_JOB_ID=900202 SLURM_JOB_GPUS=1,3"
	before := vm.Picture(t)
	kills := vm.KillAnywhere(t, job, func() bool { vm.SameInAnyOrder(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}
