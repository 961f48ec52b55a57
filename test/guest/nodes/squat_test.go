package nodes

import (
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// squatter listens at ports, says who calls, and tells each who calls to run a command: Slurm's header of what
// srun sends to the input of its tasks is in front of it.
const squatter = `import resource, select, socket, struct, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
all = []
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
	s = socket.socket()
	s.bind(("", port))
	s.listen(8)
	all.append(s)
poll = select.epoll()
for s in all:
	poll.register(s, select.EPOLLIN)
poll.register(0, select.EPOLLIN)
by = {s.fileno(): s for s in all}
held = []
print("listens", flush=True)
command = b"touch /tmp/pwned.$SLURMD_NODENAME\n"
while True:
	for fd, _ in poll.poll():
		if fd == 0:
			sys.exit() # the test is over
		c, peer = by[fd].accept()
		held.append(c)
		print("called by", peer[0], "at", by[fd].getsockname()[1], file=sys.stderr, flush=True)
		c.sendall(struct.pack("!HHHI", 3, 0, 0, len(command)) + command)
`

// Slurmd of the other node calls an srun that is in a job on this one.
func TestAUserWhoListensAtAllPortsIsNotTakenForAnothersSrun(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	twoNodes(t)
	before := pictures(t)
	withAWayOut(t)
	var called strings.Builder
	bob := exec.Command("setpriv", "--reuid", "bob", "--regid", "bob", "--init-groups", "/usr/bin/python3", "-c", squatter, "16384", "18431")
	bob.Stderr = &called
	end := standin.Start(t, bob)
	const step = `srun -N 1 -n 1 -w node1 srun --overlap -N 2 -n 2 --label bash -c 'echo the secret of $(id -un) on $SLURMD_NODENAME; while read -t 5 -r said; do eval "$said"; done'; echo srun exits with $?`
	job := vm.Submit(t, "alice", "-N 2 -n 2 --gres=nic:1", step)
	endedOnBoth(t, job)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	for _, want := range []string{"0: the secret of alice on node1\n", "1: the secret of alice on node2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("wanted %q:\n%s", want, out)
		}
	}
	for _, node := range []string{"node1", "node2"} {
		if left := onNode(t, node, "ls /tmp/pwned.* 2>/dev/null || true"); left != "" {
			t.Errorf("on %s alice has run bob's command: %s", node, left)
		}
	}
	end()
	if called.Len() > 0 {
		t.Errorf("bob was %s", called.String())
	}
	sameOnBoth(t, before)
}
