package nodes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

var node2Up sync.Once

// twoNodes makes a Slurm cluster of both VMs. The RoCE interfaces of one number are in
// one subnet.
func twoNodes(t *testing.T) {
	t.Helper()
	if _, err := vm.Try("grep ' node2$' /etc/hosts"); err != nil {
		netnstest.Skip(t, "needs two nodes: run the VM with --nodes 2")
	}
	node2Up.Do(func() {
		onNode2(t, "mkdir -p /etc/gresnet; printf %s "+vm.Quote(vm.Complete(vm.Config))+" >/etc/gresnet/gresnet.toml")
		onNode2(t, strings.NewReplacer(".0.2/", ".0.3/", ".0.9/", ".0.10/", "::2/", "::3/").Replace(vm.Dress))
	})
	vm.Slurm(t)
	onNode2(t, vm.Repo()+"/bin/gresnet close")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := vm.Try("tail -n 30 /tmp/*.out || true; " + inNode2("tail -n 30 /var/log/slurmd.log"))
			t.Logf("what jobs have written, and node2's slurmd:\n%s", out)
		}
	})
}

// onNode2 runs a shell command there and returns what it prints.
func onNode2(t *testing.T, command string) string {
	t.Helper()
	return vm.Run(t, inNode2(command))
}

func inNode2(command string) string { return vm.Repo() + "/test/vm/on node2 " + vm.Quote(command) }

// onNode runs a shell command on one of the nodes.
func onNode(t *testing.T, node, command string) string {
	t.Helper()
	if node == "node2" {
		return onNode2(t, command)
	}
	return vm.Run(t, command)
}

// pictures returns those of both nodes.
func pictures(t *testing.T) string {
	t.Helper()
	self, err := os.Executable() // in a folder that both have
	if err != nil {
		t.Fatal(err)
	}
	return vm.Picture(t) + onNode2(t, "GRESNET_PICTURE=yes "+self+" | sed 's/^/node2: /'")
}

// sameOnBoth fails the test unless both nodes are as they were.
func sameOnBoth(t *testing.T, before string) {
	t.Helper()
	if diff := netnstest.Diff(before, pictures(t)); diff != "" {
		t.Errorf("the nodes are not as they were, before (-) and after (+):\n%s", diff)
	}
}

// endedOnBoth waits until Slurm is through with a job, the epilog of node2 included.
func endedOnBoth(t *testing.T, job string) {
	t.Helper()
	vm.Ended(t, job)
	vm.Eventually(t, "the lease of job "+job+" is gone from node2", func() bool {
		_, err := vm.Try(inNode2("[ ! -e /run/gresnet/jobs/" + job + " ]"))
		return err == nil
	})
}

// claimsOn returns claims on one of the nodes.
func claimsOn(t *testing.T, node, job string) string {
	t.Helper()
	return strings.TrimSpace(onNode(t, node, `awk '$4 == `+job+` { print $1 }' /run/gresnet/in-use | xargs`))
}

// submitHeterogeneous submits a job of one component for each node, and returns the
// components' ids.
func submitHeterogeneous(t *testing.T, script string) (first, second string) {
	t.Helper()
	const path, component = "/tmp/heterogeneous", "-n 1 --gres=nic:1 -w "
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	first = strings.TrimSpace(vm.As(t, "alice", "sbatch --parsable -o /tmp/%j.out "+component+"node1 : "+component+"node2 "+path))
	return first, strconv.Itoa(vm.Atoi(first) + 1)
}

// Each component is a job of its own with a lease of its own. Slurm gives no two of them
// the same node.
func TestAHeterogeneousJobOnTwoNodesHasEachComponentsHCAInside(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	// so that the components do not have the HCA of the same index
	other := vm.Submit(t, "bob", "-w node1 --gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the other job's step runs", func() bool { return vm.HasStep(other) })

	const look = `echo "has $(hostname) $GRESNET_HCAS $(ls /sys/class/net | xargs) $(readlink /proc/self/ns/net)"; rdma link | sed "s/^/$(hostname) /"; echo looked; sleep 1000`
	job, second := submitHeterogeneous(t, "srun --het-group=0,1 bash -c "+vm.Quote(look))
	output := func() string {
		out, _ := vm.Try("cat /tmp/" + job + ".out")
		return out
	}
	vm.Eventually(t, "both tasks are there", func() bool { return strings.Count(output(), "looked\n") == 2 })
	out := output()
	for node, c := range map[string]struct{ job, hca, net string }{
		"node1": {job, "ibfake1", "roce1"},
		"node2": {second, "ibfake0", "roce0"},
	} {
		if got := claimsOn(t, node, c.job); got != c.hca {
			t.Errorf("%s: the component, job %s, has claimed %q, wanted %s", node, c.job, got, c.hca)
		}
		line := fmt.Sprintf("has %s %s eth0 lo %s net:[", node, c.hca, c.net)
		if strings.Count(out, line) != 1 {
			t.Errorf("no task, or more than one, says %q:\n%s", line, out)
		}
		if host := strings.TrimSpace(onNode(t, node, vm.WhereAmI)); strings.Contains(out, line+strings.TrimPrefix(host, "net:[")) {
			t.Errorf("the task is in its node's namespace:\n%s", out)
		}
		if n := strings.Count(out, node+" link "); vm.Mode(t) == "exclusive" && (n != 1 || !strings.Contains(out, node+" link "+c.hca+"/")) {
			t.Errorf("%s: the task sees %d RDMA devices, wanted %s alone:\n%s", node, n, c.hca, out)
		}
	}
	vm.Cancel(t, job)
	endedOnBoth(t, second)
	vm.Cancel(t, other)
	sameOnBoth(t, before)
}

// A heterogeneous step's cgroups have names that no other step's have ("step_0+1"), which
// the guard, that shared mode wants, must find.
func TestAHeterogeneousStepOnTwoNodesIsInsideOnBoth(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	if vm.Mode(t) == "shared" {
		withConfigOnBoth(t, vm.Guarded)
	}
	before := pictures(t)
	const look = `echo "is $(hostname) $1 $GRESNET_HCAS $(ls /sys/class/net | xargs) $(readlink /proc/self/ns/net)"; (exec 3<>$(ls -d /dev/infiniband/uverbs*)) && echo "$1 opened"`
	part := func(node, name string) string {
		return "-N 1 -n 1 -w " + node + " bash -c " + vm.Quote(look) + " look " + name
	}
	job := vm.Submit(t, "alice", "-N 2 --gres=nic:1", "srun "+part("node1", "first")+" : "+part("node2", "second"))
	endedOnBoth(t, job)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	for node, name := range map[string]string{"node1": "first", "node2": "second"} {
		line := fmt.Sprintf("is %s %s ibfake0 eth0 lo roce0 net:[", node, name)
		if strings.Count(out, line) != 1 || strings.Count(out, name+" opened\n") != 1 {
			t.Errorf("%s: wanted one task that says %q and opens its HCA:\n%s", node, line, out)
		}
		if host := strings.TrimSpace(onNode(t, node, vm.WhereAmI)); strings.Contains(out, line+strings.TrimPrefix(host, "net:[")) {
			t.Errorf("the task is in the namespace of %s:\n%s", node, out)
		}
	}
	sameOnBoth(t, before)
}

// withConfigOnBoth is withConfig for both nodes.
func withConfigOnBoth(t *testing.T, more string) {
	t.Helper()
	configOnBoth(t, vm.Config+more)
}

// configOnBoth has both nodes have a configuration for the time of a test.
func configOnBoth(t *testing.T, text string) {
	t.Helper()
	write := func(text string) {
		vm.WriteConfig(t, text)
		onNode2(t, "printf %s "+vm.Quote(vm.Complete(text))+" >/etc/gresnet/gresnet.toml")
	}
	write(text)
	t.Cleanup(func() { write(vm.Config) })
}

// bytesOf returns what an interface has sent and received on each of the nodes.
func bytesOf(t *testing.T, interfaceName string) (all [4]int) {
	t.Helper()
	for i, node := range []string{"node1", "node2"} {
		out := onNode(t, node, "cat /sys/class/net/"+interfaceName+"/statistics/[tr]x_bytes")
		if n, err := fmt.Sscan(out, &all[2*i], &all[2*i+1]); n != 2 {
			t.Fatalf("counters of %s on %s: %v: %s", interfaceName, node, err, out)
		}
	}
	return all
}

// Ranks of one node talk by shared memory ("vader", which is an alias now): Open MPI 5
// finds no way by TCP from an interface's address to itself.
const byRoCE = "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=roce0 "

// submitMPI submits a job that has the program run on both nodes. Ranks are dealt in
// turns, so that ranks 0 and 1, which play ping-pong, are on two.
func submitMPI(t *testing.T, size int, environment string) string {
	t.Helper()
	options := fmt.Sprintf("-N 2 -n %d --ntasks-per-node=%d --gres=nic:1", size, size/2)
	return vm.Submit(t, "alice", options, environment+byRoCE+vm.SrunMPI(size, "-m cyclic"))
}

// needMPIOnBoth brings the MPI program to both nodes.
func needMPIOnBoth(t *testing.T) {
	t.Helper()
	twoNodes(t)
	vm.NeedMPI(t)
	onNode2(t, "printf %s "+vm.Quote(string(vm.MPIProgram))+" >"+vm.MPIPath)
}

// worldOfBoth fails unless the ranks are one world, in one namespace of the job for each node.
func worldOfBoth(t *testing.T, all []vm.RankOf, size int, out string) {
	t.Helper()
	vm.OneWorld(t, all, size, out)
	for i, r := range all {
		node := fmt.Sprintf("node%d", 1+i%2)
		host := strings.TrimSpace(onNode(t, node, vm.WhereAmI))
		if r.Node != node || r.Net == host || r.Net != all[i%2].Net {
			t.Errorf("rank %d is on %s in %s, wanted it on %s, and neither in the node's %s nor elsewhere than rank %d, which is in %s",
				i, r.Node, r.Net, node, host, i%2, all[i%2].Net)
		}
	}
}

func TestMPIOnTwoNodesTalksOverTheJobsHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	needMPIOnBoth(t)
	before := pictures(t)
	const megabyte = 1 << 20
	for _, size := range []int{2, 4} {
		t.Run(fmt.Sprintf("%d ranks", size), func(t *testing.T) {
			roce, management := bytesOf(t, "roce0"), bytesOf(t, "eth0")
			job := submitMPI(t, size, "")
			endedOnBoth(t, job)
			out := vm.Run(t, "cat /tmp/"+job+".out")
			worldOfBoth(t, vm.Ranks(t, out), size, out)
			sameOnBoth(t, before)
			for i, bytes := range bytesOf(t, "roce0") {
				if bytes -= roce[i]; bytes < megabyte {
					t.Errorf("counter %d of roce0 is %d more, wanted the ping-pong's %d at least", i, bytes, megabyte)
				}
			}
			for i, bytes := range bytesOf(t, "eth0") {
				if bytes -= management[i]; bytes >= megabyte {
					t.Errorf("counter %d of eth0 is %d more: the ping-pong's %d may have gone there", i, bytes, megabyte)
				}
			}
		})
	}
}

func TestMPIOnTwoNodesThatIsCancelledLeavesNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	needMPIOnBoth(t)
	before := pictures(t)
	job := submitMPI(t, 2, "THEN=wait ")
	var out string
	vm.Eventually(t, "both ranks are there", func() bool {
		out, _ = vm.Try("cat /tmp/" + job + ".out")
		return len(vm.Ranks(t, out)) == 2
	})
	worldOfBoth(t, vm.Ranks(t, out), 2, out)
	for _, node := range []string{"node1", "node2"} {
		if got := onNode(t, node, "ls /sys/class/net | xargs"); got != "eth0 lo roce1\n" {
			t.Errorf("%s has %q while roce0 is the job's", node, got)
		}
	}
	vm.Run(t, "scancel "+job)
	endedOnBoth(t, job)
	for _, node := range []string{"node1", "node2"} {
		if left := onNode(t, node, "pgrep -a python3 || true"); left != "" {
			t.Errorf("processes are left on %s: %s", node, left)
		}
	}
	sameOnBoth(t, before)
}

// What the ranks' PMIx calls their job is the first component, which the second one has
// no other word of.
func TestMPIOnTwoNodesIsOneWorldInAHeterogeneousJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	needMPIOnBoth(t)
	before := pictures(t)
	job, second := submitHeterogeneous(t, byRoCE+"srun --mpi=pmix --het-group=0,1 python3 "+vm.MPIPath)
	endedOnBoth(t, job)
	endedOnBoth(t, second)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	worldOfBoth(t, vm.Ranks(t, out), 2, out)
	sameOnBoth(t, before)
}

// The other node has made its part of the job by then.
func TestAJobOnTwoNodesOfWhichOneCannotIsUndoneOnBoth(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	onNode2(t, "echo wrong >>/etc/gresnet/gresnet.toml")
	t.Cleanup(func() { onNode2(t, "sed -i '$d' /etc/gresnet/gresnet.toml") })
	job := vm.Submit(t, "alice", "-N 2 --gres=nic:1", "srun "+vm.WhereAmI)
	vm.Eventually(t, "the job is held", func() bool {
		out, _ := vm.Try("squeue -h -j " + job + " -o %r")
		return strings.Contains(strings.ToLower(out), "held")
	})
	if out := vm.Run(t, "sinfo -h -N -t drain -o %N"); out != "node2\n" {
		t.Errorf("drained is %q, wanted node2", out)
	}
	vm.Cancel(t, job)
	endedOnBoth(t, job)
	if out, err := vm.Try("cat /tmp/" + job + ".out"); err == nil {
		t.Errorf("the job has run:\n%s", out)
	}
	sameOnBoth(t, before)
}
