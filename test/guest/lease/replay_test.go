package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestALateEpilogLeavesTheNextJobAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const first, next = "SLURM_JOB_ID=900080 SLURM_JOB_GPUS=0", "SLURM_JOB_ID=900081 SLURM_JOB_GPUS=0"
	vm.Must(t, "prolog", first)
	// The claim is free once its link is gone; the lease's directory goes after that.
	vm.Traced(t, "epilog", first, "-P /run/gresnet/jobs/900080/journal -e inject=unlinkat:signal=KILL:when=1")
	if free := vm.Jq(t, ".claims | length"); strings.TrimSpace(free) != "0" {
		t.Fatalf("the epilog was killed before it had freed its claim")
	}
	vm.Run(t, "ls /run/gresnet/jobs/900080/journal")
	vm.Must(t, "prolog", next)
	const look = "cat /run/gresnet/jobs/900081/env; ls -l /run/gresnet/claims; stat -c '%n %a %u %t:%T' /run/gresnet/jobs/900081/dev/* /dev/infiniband/*" +
		"; nsenter --net=/run/gresnet/jobs/900081/netns sh -c 'ip -d link; ip addr; ip route show table all; ip -6 route show table all; rdma dev'"
	leased := vm.Run(t, look)
	for range 2 {
		vm.Must(t, "epilog", first)
	}
	if now := vm.Run(t, look); now != leased {
		t.Errorf("the late epilog changed the next job's lease:\n%s\nwas:\n%s", now, leased)
	}
	vm.Must(t, "epilog", next)
	vm.Same(t, before)
}

func TestOneHCAGoesToJobAfterJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, "for i in ib0 roce0; do ip link property add dev $i altname same-$i; done")
	defer vm.Run(t, "for i in ib0 roce0; do ip link property del dev $i altname same-$i; done")
	before := vm.Picture(t)
	for _, job := range []string{"900082", "900083", "900084"} {
		vm.Must(t, "prolog", "SLURM_JOB_ID="+job+" SLURM_JOB_GPUS=0,1")
		inside := vm.Run(t, "nsenter --net=/run/gresnet/jobs/"+job+"/netns ip -o addr show up scope global")
		if n := strings.Count(inside, "inet 10."); n != 4 {
			t.Errorf("job %s has %d addresses, wanted 4:\n%s", job, n, inside)
		}
		vm.Must(t, "epilog", "SLURM_JOB_ID="+job)
		vm.Same(t, before)
	}
}
