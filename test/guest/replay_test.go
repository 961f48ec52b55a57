package guest

import (
	"strings"
	"testing"
)

func TestALateEpilogLeavesTheNextJobAlone(t *testing.T) {
	withGPUs(t)
	before := picture(t)
	const first, next = "SLURM_JOB_ID=900080 SLURM_JOB_GPUS=0", "SLURM_JOB_ID=900081 SLURM_JOB_GPUS=0"
	must(t, "prolog", first)
	// The claim is free once node.json is written; the lease's directory goes after that.
	traced(t, "epilog", first, "-P /run/gresnet/jobs/900080/journal -e inject=unlinkat:signal=KILL:when=1")
	if free := run(t, "jq -r '.claims | length' /run/gresnet/node.json"); strings.TrimSpace(free) != "0" {
		t.Fatalf("the epilog was killed before it had freed its claim")
	}
	run(t, "ls /run/gresnet/jobs/900080/journal")
	must(t, "prolog", next)
	const look = "cat /run/gresnet/jobs/900081/env; jq .claims /run/gresnet/node.json; stat -c '%n %a %u %t:%T' /run/gresnet/jobs/900081/dev/* /dev/infiniband/*" +
		"; nsenter --net=/run/gresnet/jobs/900081/netns sh -c 'ip -d link; ip addr; ip route show table all; ip -6 route show table all; rdma dev'"
	leased := run(t, look)
	for range 2 {
		must(t, "epilog", first)
	}
	if now := run(t, look); now != leased {
		t.Errorf("the late epilog changed the next job's lease:\n%s\nwas:\n%s", now, leased)
	}
	must(t, "epilog", next)
	same(t, before)
}

func TestOneHCAGoesToJobAfterJob(t *testing.T) {
	anHCAOfEachKind(t)
	run(t, "for i in ib0 roce0; do ip link property add dev $i altname same-$i; done")
	defer run(t, "for i in ib0 roce0; do ip link property del dev $i altname same-$i; done")
	before := picture(t)
	for _, job := range []string{"900082", "900083", "900084"} {
		must(t, "prolog", "SLURM_JOB_ID="+job+" SLURM_JOB_GPUS=0,1")
		inside := run(t, "nsenter --net=/run/gresnet/jobs/"+job+"/netns ip -o addr show up scope global")
		if n := strings.Count(inside, "inet 10."); n != 4 {
			t.Errorf("job %s has %d addresses, wanted 4:\n%s", job, n, inside)
		}
		must(t, "epilog", "SLURM_JOB_ID="+job)
		same(t, before)
	}
}
