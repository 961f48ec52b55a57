package access

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// devicesAlone has jobs get device nodes of their own, and no network.
var devicesAlone = vm.Guarded + "isolation = \"devices\"\n"

// seenByJob is the network and the HCAs that a process finds.
const seenByJob = `
readlink /proc/self/ns/net
ls /sys/class/net | xargs
ls /dev/infiniband | grep -c uverbs
echo "$GRESNET_HCAS has $GRESNET_INTERFACES"
for d in /dev/infiniband/uverbs*; do exec 3<>$d && echo opened; done
`

// isInNodesNetwork wants a process of a job to have the node's network and one HCA that it can open.
func isInNodesNetwork(t *testing.T, who, out string) {
	t.Helper()
	want := strings.TrimSpace(vm.Run(t, "readlink /proc/self/ns/net; ls /sys/class/net | xargs")) + "\n1\n"
	told, found := strings.CutPrefix(out, want)
	if !found {
		t.Errorf("%s finds\n%s\nwanted the node's network and one HCA:\n%s", who, out, want)
		return
	}
	hca, interfaceName, _ := strings.Cut(strings.Split(told, "\n")[0], " has ")
	if hca == "" || interfaceName == "" || !strings.Contains(want, interfaceName) {
		t.Errorf("%s is told of HCA %q and interface %q", who, hca, interfaceName)
	}
	if !strings.HasSuffix(strings.TrimSpace(told), "\nopened") {
		t.Errorf("%s cannot open its HCA:\n%s", who, told)
	}
}

func TestAJobThatIsIsolatedByDevicesHasTheNodesNetworkAndItsOwnHCAs(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short, vm.EverySlurm)
	sharedMode(t)
	vm.WithConfig(t, devicesAlone)
	before := vm.Picture(t)
	t.Cleanup(func() { vm.Run(t, "rm -f /tmp/node-*; scancel -u alice") })
	isInNodesNetwork(t, "a task", vm.As(t, "alice", "srun --gres=nic:1 bash -c "+vm.Quote(seenByJob)))
	// Nothing of Slurm's is out of reach in the node's network, so a script has the HCA, too.
	isInNodesNetwork(t, "a batch script", vm.Script(t, "--gres=nic:1", "bash -c "+vm.Quote(seenByJob)))
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	job, attack := victim(t)
	everybodyElseIsDenied(t, attack)
	vm.Cancel(t, job)
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	vm.Same(t, before)
}

func TestAPolicyIsolatesTheJobsOfAPartitionByDevices(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	sharedMode(t)
	vm.WithConfig(t, vm.Guarded+"[[policy]]\npartition = \"gentle\"\nisolation = \"devices\"\n")
	vm.RestartSlurm(t, "--conf 'PartitionName=gentle Nodes=node1'")
	t.Cleanup(func() { vm.RestartSlurm(t) })
	before := vm.Picture(t)
	isInNodesNetwork(t, "a job of the partition", vm.As(t, "alice", "srun -p gentle --gres=nic:1 bash -c "+vm.Quote(seenByJob)))
	node := strings.TrimSpace(vm.Run(t, "readlink /proc/self/ns/net"))
	if out := vm.As(t, "alice", "srun -p all --gres=nic:1 readlink /proc/self/ns/net"); strings.TrimSpace(out) == node {
		t.Errorf("a job of another partition is in the node's network, too")
	}
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	vm.Same(t, before)
}

func TestIsolationByDevicesIsRefusedInExclusiveMode(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"\n[access]\nisolation = \"devices\"\n")
	before := vm.Picture(t)
	out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900170 SLURM_JOB_GPUS=0,1")
	vm.NodesFault(t, out, code, `isolation = "devices" is for the shared RDMA netns mode`)
	if found := vm.Run(t, vm.Repo()+"/bin/gresnet check || true"); !strings.Contains(found, `isolation: "devices" is for shared mode`) {
		t.Errorf("check does not find it:\n%s", found)
	}
	vm.Same(t, before)
}
