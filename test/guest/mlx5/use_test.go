package mlx5

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// rail is an address that both RoCE HCAs' interfaces have one of, so that they reach each other.
const rail = "10.77.0.%d"

// own has a job's program find its HCA, and the number of its GID for RoCE v2 and the rail's address.
const own = `
d=$GRESNET_HCAS
[ $(ibv_devinfo | grep -c hca_id:) = 1 ]; ibv_devinfo -d $d | grep -q PORT_ACTIVE
for gid in $(seq 0 60); do
	[[ $(cat /sys/class/infiniband/$d/ports/1/gids/$gid 2>/dev/null) != *:ffff:0a4d:* || $(cat /sys/class/infiniband/$d/ports/1/gid_attrs/types/$gid) != *v2 ]] || break
done
echo "HCA $d, GID $gid"
`

// The programs of the one job wait for those of the other, which try until they are there.
var (
	serves = own + `
ib_write_bw -d $d -x $gid -n 20 -F
ib_send_bw -c UD -d $d -x $gid -n 20 -F
rping -s -v -C 5 -a 0.0.0.0
for tls in rc_v,ud_v rc_x,ud_x; do UCX_LOG_LEVEL=info UCX_TLS=$tls ucx_perftest -t tag_lat -n 20 -w 2 -f; done
`
	asks = own + `
to=` + fmt.Sprintf(rail, 1) + `
try() { until "$@" >/tmp/said.$SLURM_JOB_ID 2>&1; do sleep 0.3; done; cat /tmp/said.$SLURM_JOB_ID; }
try ib_write_bw -d $d -x $gid -n 20 -F $to
try ib_send_bw -c UD -d $d -x $gid -n 20 -F $to
try rping -c -v -C 5 -a $to
for tls in rc_v,ud_v rc_x,ud_x; do export UCX_LOG_LEVEL=info UCX_TLS=$tls; try ucx_perftest $to -t tag_lat -n 20 -w 2 -f; done
`
)

func TestTwoJobsUseRDMAWithEachOther(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.MLX5)
	hcas := begin(t)
	rails(t, hcas)
	before := vm.Picture(t)
	run := func(script string) string {
		return vm.Submit(t, "alice", "--gres=gpu:1", "srun "+vm.Timeout+"bash -ec "+vm.Quote(script))
	}
	jobs := []string{run(serves), run(asks)}
	for _, job := range jobs {
		vm.Ended(t, job)
	}
	out := vm.Run(t, "cat /tmp/"+jobs[0]+".out /tmp/"+jobs[1]+".out")
	for what, n := range map[string]int{" 65536 ": 2, " 4096  ": 2, "rdma-ping-4": 2, "tag(rc_verbs/": 2, "tag(rc_mlx5/": 2} {
		if strings.Count(out, what) < n {
			t.Errorf("wanted %q %d times:\n%s", what, n, out)
		}
	}
	if t.Failed() {
		t.Log(vm.Run(t, "rdma resource show; dmesg | tail -n 20; tail -n 20 "+firmwareLog))
		return
	}
	vm.Same(t, before)
}
