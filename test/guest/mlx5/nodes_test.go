package mlx5

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// two is a job's program on two nodes: the first task serves the second.
var two = own + `
to=` + fmt.Sprintf(rail, 1) + `
if [ $SLURM_PROCID = 0 ]; then
	ibv_rc_pingpong -d $d -g $gid -n 20
	ib_write_bw -d $d -x $gid -n 20 -F
else
	try() { until "$@" >/tmp/said 2>&1; do sleep 0.3; done; cat /tmp/said; }
	try ping -c 3 $to
	try ibv_rc_pingpong -d $d -g $gid -n 20 $to
	try ib_write_bw -d $d -x $gid -n 20 -F $to
fi
`

// byUCX is Open MPI, which UCX has use the HCAs that it finds.
const byUCX = "export OMPI_MCA_pml=ucx OMPI_MCA_btl=self UCX_TLS=rc,ud,self UCX_LOG_LEVEL=info; srun --mpi=pmix python3 " + vm.MPIPath

// TestAJobOfTwoNodesUsesRDMABetweenThem has the HCAs of two nodes on one switch.
func TestAJobOfTwoNodesUsesRDMABetweenThem(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoMLX5)
	vm.NeedMPI(t)
	node2 := func(command string) string {
		return vm.Run(t, vm.Repo()+"/test/vm/on node2 "+vm.Quote(command))
	}
	node2("mkdir -p /etc/gresnet; printf %s " + vm.Quote(vm.Complete(vm.Config)) + " >/etc/gresnet/gresnet.toml")
	node2(strings.NewReplacer(".0.2/", ".0.3/", ".0.9/", ".0.10/", "::2/", "::3/").Replace(vm.Dress))
	h := begin(t)[0]
	config, err := os.ReadFile("/etc/gresnet/gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	node2("printf %s " + vm.Quote(string(config)) + " >/etc/gresnet/gresnet.toml; " + vm.Repo() + "/bin/gresnet close")
	address := func(n int) string { return fmt.Sprintf("ip addr add "+rail+"/24 dev %s", n, h.net) }
	vm.Run(t, address(1))
	node2(address(2))
	self, err := os.Executable() // in a folder that both have
	if err != nil {
		t.Fatal(err)
	}
	pictures := func() string { return vm.Picture(t) + node2("GRESNET_PICTURE=yes "+self) }
	before := pictures()
	node2("printf %s " + vm.Quote(string(vm.MPIProgram)) + " >" + vm.MPIPath)
	job := vm.Submit(t, "alice", "-N2 --gres=gpu:1", "srun -l "+vm.Timeout+"bash -ec "+vm.Quote(two)+"; "+byUCX)
	vm.Ended(t, job)
	vm.Eventually(t, "the job's lease is gone from node2", func() bool {
		_, err := vm.Try(vm.Repo() + "/test/vm/on node2 '[ ! -e /run/gresnet/jobs/" + job + " ]'")
		return err == nil
	})
	out := vm.Run(t, "cat /tmp/"+job+".out")
	for what, n := range map[string]int{"3 received": 1, "iters in": 2, " 65536 ": 2, "size=2 sum=1 arrived=1048576": 2, "tag(rc_mlx5/" + h.name + ":1)": 2} {
		if strings.Count(out, what) < n {
			t.Errorf("wanted %q %d times:\n%s\n%s", what, n, out, node2("tail -n 20 /var/log/slurmd.log"))
		}
	}
	if diff := netnstest.Diff(before, pictures()); diff != "" {
		t.Errorf("the nodes are not as they were:\n%s", diff)
	}
}
