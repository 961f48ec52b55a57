package nodes

import (
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// listening is a job whose first process listens on some ports at all of its addresses, until it is
// canceled. The second one connects to each port by the first node's name.
const listening = `
srun python3 -c '
import os, socket, time
first = os.environ["SLURM_JOB_NODELIST"].replace("[1-2]", "1")
ports = (7001, 8888, 29500, 50000)
if os.environ["SLURM_PROCID"] == "0":
	servers = [socket.create_server(("", p), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64) for p in ports]
	print("listens", flush=True)
else:
	for p in ports:
		while True:
			try:
				socket.create_connection((first, p), timeout=60).close()
				break
			except ConnectionRefusedError:
				time.sleep(0.1)
		print(f"its own node reaches port {p}", flush=True)
time.sleep(100000)
'
`

// scan tries ports of some addresses from the other node's network, all at once, and prints those that are open.
const scan = `
python3 -c '
import concurrent.futures, os, socket
def state(a, p):
	try:
		socket.create_connection((a, p), timeout=10 * float(os.environ["GRESNET_SLOW"])).close()
		return "open"
	except OSError as e:
		return "closed"
todo = [(a, p) for a in ADDRESSES for p in (7001, 8888, 29500, 50000)] + [("192.0.2.1", 6818)]
with concurrent.futures.ThreadPoolExecutor(len(todo)) as pool:
	for (a, p), s in zip(todo, pool.map(lambda t: state(*t), todo)):
		print(a, p, s)
'
`

func TestAnotherHostOfTheManagementNetworkFindsNoOpenPortOfAJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	withAWayOut(t)
	job := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", listening)
	vm.Eventually(t, "the job's own nodes reach its ports", func() bool {
		out, _ := vm.Try("cat /tmp/" + job + ".out")
		return strings.Count(out, "its own node reaches port") == 4
	})
	inside := "nsenter --net=/run/gresnet/jobs/" + job + "/netns ip -o -4 addr show"
	addresses := strings.Fields(vm.Run(t, inside+" | grep -v ' 127\\.' | awk '{sub(\"/.*\", \"\", $4); print $4}'"))
	if !slices.Contains(addresses, "192.0.2.1") {
		t.Errorf("the job has addresses %q, and not its node's", addresses)
	}
	list := "[\"" + strings.Join(addresses, "\", \"") + "\"]"
	out := onNode2(t, strings.Replace(scan, "ADDRESSES", list, 1))
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if is, want := strings.HasSuffix(line, " open"), strings.HasPrefix(line, "192.0.2.1 6818 "); is != want {
			t.Errorf("the other node found: %s", line)
		}
	}
	if want := 4*len(addresses) + 1; strings.Count(out, "\n") < want {
		t.Errorf("the other node tried fewer than %d ports:\n%s", want, out)
	}
	vm.Run(t, "scancel "+job)
	endedOnBoth(t, job)
	sameOnBoth(t, before)
}
