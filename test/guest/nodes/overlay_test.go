package nodes

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// recipe is the usual one of jobs whose processes meet at the first node's name. Each says
// which job it has met, and by which addresses.
const recipe = `
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -1) MASTER_PORT=29500
srun python3 -c '
import os, socket, time
rank, job = int(os.environ["SLURM_PROCID"]), os.environ["SLURM_JOB_ID"]
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
own = socket.gethostbyname(socket.gethostname())
if rank == 0:
	s = socket.create_server(at)
	c, peer = s.accept()
	c.sendall(job.encode())
	met = c.recv(99).decode()
else:
	while True:
		try:
			c = socket.create_connection(at, timeout=60)
			break
		except ConnectionRefusedError:
			time.sleep(0.1)
	c.sendall(job.encode())
	met, peer = c.recv(99).decode(), c.getpeername()
print(f"rank {rank} of {job} at {own} met {met} at {peer[0]}", flush=True)
KEEP
'
`

// meeting returns what the two processes of a job say.
func meeting(job, first, second string) []string {
	return []string{
		fmt.Sprintf("rank 0 of %s at %s met %s at %s\n", job, first, job, second),
		fmt.Sprintf("rank 1 of %s at %s met %s at %s\n", job, second, job, first),
	}
}

func TestProcessesOfAJobMeetAtItsFirstNodesName(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	for _, c := range []struct{ name, options, second string }{
		{"on one node", "-N 1 -n 2", "192.0.2.1"},
		{"on two nodes", "-N 2 -n 2", "192.0.2.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := vm.Submit(t, "alice", c.options+" --gres=nic:1", strings.Replace(recipe, "KEEP", "", 1))
			endedOnBoth(t, job)
			out := vm.Run(t, "cat /tmp/"+job+".out")
			for _, want := range meeting(job, "192.0.2.1", c.second) {
				if !strings.Contains(out, want) {
					t.Errorf("wanted %q:\n%s", want, out)
				}
			}
		})
	}
	sameOnBoth(t, before)
	for _, node := range []string{"node1", "node2"} {
		if left := onNode(t, node, "ip -o link show type vxlan; ss -uanH '( sport = 489 )'"); left != "" {
			t.Errorf("%s has %s", node, left)
		}
	}
}

func TestComponentsOfAHeterogeneousJobMeetAndOneEndsBeforeTheOther(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	configOnBoth(t, vm.AskScontrol)
	before := pictures(t)
	both := strings.NewReplacer("SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST_HET_GROUP_0", "srun python3", "srun --het-group=0,1 python3", "KEEP", "time.sleep(1000)").Replace(recipe)
	first, second := submitHeterogeneous(t, both)
	output := func() string {
		out, _ := vm.Try("cat /tmp/" + first + ".out")
		return out
	}
	vm.Eventually(t, "both tasks have met", func() bool { return strings.Count(output(), " met ") == 2 })
	for _, want := range meeting(first, "192.0.2.1", "192.0.2.2") {
		if out := output(); !strings.Contains(out, want) {
			t.Errorf("wanted %q:\n%s", want, out)
		}
	}
	vm.Run(t, "scancel "+first+"+1")
	vm.Eventually(t, "the second component's lease is gone", func() bool {
		_, err := vm.Try(inNode2("[ ! -e /run/gresnet/jobs/" + second + " ]"))
		return err == nil
	})
	vm.Cancel(t, first)
	endedOnBoth(t, second)
	sameOnBoth(t, before)
	for _, node := range []string{"node1", "node2"} {
		if left := onNode(t, node, "ip -o link show type vxlan; ss -uanH '( sport = 489 )'; nft list tables | grep overlay || true"); left != "" {
			t.Errorf("%s has %s", node, left)
		}
	}
}

func TestTwoJobsOnTheSameNodesReachEachItsOwn(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	script := strings.Replace(recipe, "KEEP", "time.sleep(1000)", 1)
	first := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", script)
	second := vm.Submit(t, "bob", "-N 2 -n 2 --gres=nic:1", script)
	for _, job := range []string{first, second} {
		var out string
		vm.Eventually(t, "the processes of job "+job+" have met", func() bool {
			out, _ = vm.Try("cat /tmp/" + job + ".out")
			return strings.Count(out, "rank ") == 2
		})
		for _, want := range meeting(job, "192.0.2.1", "192.0.2.2") {
			if !strings.Contains(out, want) {
				t.Errorf("wanted %q:\n%s", want, out)
			}
		}
	}
	for _, job := range []string{first, second} {
		vm.Run(t, "scancel "+job)
		endedOnBoth(t, job)
	}
	sameOnBoth(t, before)
}

// withAWayOut lets jobs of both nodes reach what these reach, for the time of a test.
func withAWayOut(t *testing.T) {
	t.Helper()
	write := func(text string) {
		vm.WriteConfig(t, text)
		onNode2(t, "printf %s "+vm.Quote(vm.Complete(text))+" >/etc/gresnet/gresnet.toml")
	}
	write(vm.Config + "\n[uplink]\nkind = \"auto\"\n")
	t.Cleanup(func() { write(vm.Config) })
}

// An srun in a step is called back by slurmd on each node.
func TestSrunInAStepStartsStepsOnAllOfTheJobsNodes(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	withAWayOut(t)
	const step = "srun -N 1 -n 1 -w %s srun --overlap -N 2 -n 2 --label bash -c 'echo $SLURMD_NODENAME has $(ip -o -4 addr show dev uplink0 | wc -l) addresses on its way out, and lists $(ip -o link show | tail -1 | grep -o uplink0) last'"
	for _, from := range []string{"node1", "node2"} {
		job := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", fmt.Sprintf(step, from))
		endedOnBoth(t, job)
		out := vm.Run(t, "cat /tmp/"+job+".out")
		for _, want := range []string{"0: node1 has 0 addresses on its way out, and lists uplink0 last", "1: node2 has 0 addresses on its way out, and lists uplink0 last"} {
			if !strings.Contains(out, want) {
				t.Errorf("from %s, wanted %q:\n%s", from, want, out)
			}
		}
	}
	sameOnBoth(t, before)
}

// Slurmctld calls an srun that waits: for room in its job, and for a new job.
func TestAnSrunInAStepThatWaitsIsCalled(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	withAWayOut(t)
	const script = `srun -N 1 -n 1 -w node2 bash -c 'begun=$SECONDS
for n in 1 2 3; do srun --overlap --exact -N 1 -n 1 -w node2 bash -c "echo step $n; sleep 1" & done
for n in 1 2 3; do srun --exclusive -N 1 -n 1 -w node1 bash -c "echo waited $n; sleep 1" & done
wait
for name in ${!SLURM_*}; do unset $name; done
srun --begin=now+1 -N 1 -n 1 -w node2 echo a new job
echo took $((SECONDS - begun)) seconds'`
	job := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", script)
	endedOnBoth(t, job)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	for _, want := range []string{"step 1\n", "step 2\n", "step 3\n", "waited 1\n", "waited 2\n", "waited 3\n", "a new job\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("wanted %q:\n%s", want, out)
		}
	}
	t.Log(out)
	sameOnBoth(t, before)
}

// With a tree that is narrower than the job, srun calls node1's slurmd and that one node2's, which
// does not know where in the job srun is.
func TestABatchScriptIsOnTheNodeWhereSrunDoesNotCallAllOfTheJobsNodes(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	withAWayOut(t)
	node := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
	script := "echo script_at $(" + vm.WhereAmI + "); srun --label bash -c 'echo on $SLURMD_NODENAME'; echo srun exits with $?"
	for _, c := range []struct {
		name, conf string
		inside     bool
	}{
		{"it calls all", "TreeWidth=2", true},
		{"it calls one", "TreeWidth=1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.RestartSlurm(t, "--conf "+c.conf)
			t.Cleanup(func() { vm.RestartSlurm(t) })
			vm.PluginArguments(t, "batch=auto")
			job := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", script)
			endedOnBoth(t, job)
			out := vm.Run(t, "cat /tmp/"+job+".out")
			for _, want := range []string{"0: on node1\n", "1: on node2\n", "srun exits with 0\n"} {
				if !strings.Contains(out, want) {
					t.Errorf("wanted %q:\n%s", want, out)
				}
			}
			if at := strings.Contains(out, "script_at "+node+"\n"); at == c.inside {
				t.Errorf("the script is inside: %v, wanted %v:\n%s", !at, c.inside, out)
			}
		})
	}
	sameOnBoth(t, before)
}
