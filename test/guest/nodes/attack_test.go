package nodes

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// ear writes down what comes into a network namespace by its way out: protocol, sender, port.
const ear = `import select, socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.bind(("uplink0", 0x0800))
out = open(sys.argv[1], "w")
print("hears", flush=True)
while True:
	for r in select.select([s, sys.stdin], [], [])[0]:
		if r is not s:
			sys.exit() # the test is over
		p, (_, _, kind, _, _) = s.recvfrom(65535)
		if kind != socket.PACKET_OUTGOING and p[9] in (6, 17):
			print({6: "tcp", 17: "udp"}[p[9]], socket.inet_ntoa(p[12:16]), struct.unpack("!H", p[22:24])[0], file=out, flush=True)
`

// knock sends to ports of a host, in turn by UDP and by TCP. knock HOST PORT...
const knock = `import socket, sys
held = []
for port in map(int, sys.argv[2:]):
	for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
		s = socket.socket(socket.AF_INET, kind)
		s.setblocking(False)
		s.connect_ex((sys.argv[1], port))
		if kind == socket.SOCK_DGRAM:
			try:
				s.send(b"knock")
			except OSError:
				pass # refused
		held.append(s)
`

// service answers at a port by TCP, with a byte, and by UDP. service PORT HEARD
const service = `import os, select, socket, sys
tcp = socket.create_server(("", int(sys.argv[1])), backlog=1000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", int(sys.argv[1])))
out = open(sys.argv[2], "w")
while True:
	for s in select.select([tcp, udp], [], [])[0]:
		if s is tcp:
			c, _ = tcp.accept()
			c.send(b".")
			c.close()
		else:
			data, peer = udp.recvfrom(999)
			print(data.decode(), "of", peer[1], file=out, flush=True)
			udp.sendto(b"answer to " + data, peer)
`

// connect makes many short connections, and says how many were answered. connect HOST PORT COUNT
const connect = `import socket, sys
answered = 0
for _ in range(int(sys.argv[3])):
	with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as s:
		answered += len(s.recv(1))
print("answered", answered)
`

// sendFrom sends a text from a port by UDP, and says what comes of it. sendFrom PORT HOST PORT TEXT
const sendFrom = `import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
s.settimeout(60)
try:
	s.connect((sys.argv[2], int(sys.argv[3])))
	s.send(sys.argv[4].encode())
	print(s.recv(999).decode())
except OSError as e:
	print(e)
`

const servicePort = "700" // jobs reach a node at ports below 1024

// attacked makes a cluster whose jobs have a way out, and puts these programs into /tmp. It returns what both nodes
// are like.
func attacked(t *testing.T) (before string) {
	t.Helper()
	twoNodes(t)
	for name, text := range map[string]string{"ear": ear, "knock": knock, "service": service, "connect": connect, "sendfrom": sendFrom} {
		write := "printf %s " + vm.Quote(text) + " >/tmp/" + name + ".py; chmod 0644 /tmp/" + name + ".py"
		vm.Run(t, write)
		onNode2(t, write)
	}
	before = pictures(t)
	withAWayOut(t)
	return before
}

// serve has root serve on a node for the time of a test.
func serve(t *testing.T, node, port string) {
	t.Helper()
	onNode(t, node, "setsid python3 /tmp/service.py "+port+" /tmp/served >/tmp/service.log 2>&1 </dev/null & echo $! >/tmp/service.pid")
	vm.Eventually(t, node+" serves", func() bool {
		_, err := vm.Try("python3 /tmp/connect.py " + addressOf(node) + " " + port + " 1")
		return err == nil
	})
	t.Cleanup(func() { onNode(t, node, "kill $(cat /tmp/service.pid)") })
}

func addressOf(node string) string { return "192.0.2." + strings.TrimPrefix(node, "node") }

// listens begins a job on node1, listens to what comes into its network, and returns that.
func listens(t *testing.T, user string) (job string, heard func() []string) {
	t.Helper()
	job = vm.Submit(t, user, "-w node1 --gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "job "+job+" runs", func() bool { return vm.HasStep(job) })
	file := "/tmp/ear." + job
	standin.Start(t, exec.Command("nsenter", "--net=/run/gresnet/jobs/"+job+"/netns", "python3", "/tmp/ear.py", file))
	return job, func() []string { return strings.Split(strings.TrimSpace(vm.Run(t, "sort -u "+file)), "\n") }
}

// block returns the ports of a job.
func block(t *testing.T, job string) (first, last int) {
	t.Helper()
	fmt.Sscan(in(t, job, "root", "cat /proc/sys/net/ipv4/ip_local_port_range"), &first, &last)
	return first, last
}

// in runs a command in the network of a job on node1.
func in(t *testing.T, job, user, command string) string {
	t.Helper()
	return vm.Run(t, "cd /tmp; nsenter --net=/run/gresnet/jobs/"+job+"/netns setpriv --reuid "+user+" --regid "+user+" --init-groups sh -ec "+vm.Quote(command))
}

// Slurmstepd connects to where the client of a step says that it listens, and the client is the user's.
func TestAUserWhoHasRootConnectReachesOfAnothersJobItsBlockAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	before := attacked(t)
	job, heard := listens(t, "alice")
	first, last := block(t, job)
	bobs := vm.Submit(t, "bob", "-N 2 -n 2", "sleep 1000")
	vm.Eventually(t, "job "+bobs+" runs", func() bool { return vm.Run(t, "squeue -h -t R -o %A -u bob") == bobs+"\n" })

	step := func(from, to int) string {
		vm.Run(t, fmt.Sprintf("sed '/^SrunPortRange/d' /etc/slurm/slurm.conf >/tmp/bob.conf; echo SrunPortRange=%d-%d >>/tmp/bob.conf; chmod 0644 /tmp/bob.conf", from, to))
		return "SLURM_CONF=/tmp/bob.conf " + vm.Timeout + "srun --jobid " + bobs + " echo called back"
	}
	if out := vm.As(t, "bob", step(8000, 8999)); out != "called back\ncalled back\n" {
		t.Errorf("srun has said, where nobody has its ports:\n%s", out)
	}
	if got := heard(); !slices.Equal(got, []string{""}) {
		t.Errorf("alice's job has heard %q of bob's srun at ports of nobody", got)
	}
	vm.As(t, "bob", step(first, last)+" >/tmp/bob.out 2>&1 </dev/null &")
	vm.Eventually(t, "slurmstepd of node2 has called for bob's srun", func() bool {
		return slices.ContainsFunc(heard(), func(line string) bool { return strings.HasPrefix(line, "tcp 192.0.2.2 ") })
	})
	vm.Run(t, "scancel "+bobs+"; pkill -KILL -u bob srun || true")
	endedOnBoth(t, bobs)
	t.Logf("of bob's srun at its ports alice's job has heard %q", heard())

	ports := []int{1, 22, 700, 1024, 8080, first - 1, last + 1, 32768, 45000, 60999, 61500, 65535, first + 1, last - 1}
	for _, node := range []struct{ name, seen string }{{"node1", "198.19.0.0"}, {"node2", "192.0.2.2"}} {
		onNode(t, node.name, "python3 /tmp/knock.py 192.0.2.1 "+strings.Trim(fmt.Sprint(ports), "[]"))
		// The last port is the last to be knocked at.
		vm.Eventually(t, "alice's job has heard root of "+node.name, func() bool {
			return slices.Contains(heard(), fmt.Sprintf("tcp %s %d", node.seen, last-1))
		})
	}
	for _, line := range heard() {
		var protocol, sender string
		var port int
		if _, err := fmt.Sscan(line, &protocol, &sender, &port); err != nil || port < first || port > last {
			t.Errorf("alice's job has heard %q, and has ports %d-%d: %v", line, first, last, err)
		}
	}
	vm.Cancel(t, job)
	sameOnBoth(t, before)
}

func TestShortConnectionsOfJobsFillNoListOfTheirNode(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes)
	vm.Run(t, "modprobe nf_conntrack")
	before := attacked(t)
	const rules = "table inet site { chain i { type filter hook input priority 0; ct state established accept; }; chain o { type filter hook output priority 0; ct state established accept; }; }"
	vm.Run(t, "nft "+vm.Quote(rules))
	t.Cleanup(func() { vm.Try("nft delete table inet site") })
	serve(t, "node2", servicePort)
	job, _ := listens(t, "bob")
	tracked := func() int { return vm.Atoi(vm.Run(t, "cat /proc/sys/net/netfilter/nf_conntrack_count")) }
	const many = 2000
	connects := "python3 /tmp/connect.py 192.0.2.2 " + servicePort + " " + fmt.Sprint(many)

	begun := tracked()
	if out := in(t, job, "bob", connects); out != fmt.Sprintf("answered %d\n", many) {
		t.Errorf("bob's job has %s", out)
	}
	if n := tracked() - begun; n > many/10 {
		t.Errorf("the node tracks %d connections more after the job's %d", n, many)
	}
	if out := vm.Run(t, vm.Timeout+"srun -N 2 -n 2 echo root"); out != "root\nroot\n" {
		t.Errorf("root's srun: %s", out)
	}
	// A user outside of jobs shows that these are tracked.
	begun = tracked()
	vm.As(t, "bob", connects)
	if n := tracked() - begun; n < many/2 {
		t.Errorf("the node tracks %d connections more after %d of its own", n, many)
	}
	vm.Cancel(t, job)
	vm.Run(t, "nft delete table inet site")
	sameOnBoth(t, before)
}

func TestAnswersForAServiceOfTheNodeReachNoJobThatSendsFromItsPort(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes)
	before := attacked(t)
	serve(t, "node2", servicePort)
	job, heard := listens(t, "bob")
	const port = "9000"
	send := "python3 /tmp/sendfrom.py " + port + " 192.0.2.2 " + servicePort + " "
	for range 3 {
		if out := in(t, job, "bob", send+"job"); !strings.Contains(out, "No route to host") {
			t.Errorf("the job has sent from port %s: %s", port, out)
		}
		if out := vm.Run(t, send+"root"); out != "answer to root\n" {
			t.Errorf("root's service is told %q", out)
		}
	}
	if out := onNode2(t, "sort -u /tmp/served"); out != "root of "+port+"\n" {
		t.Errorf("node2 has heard:\n%s", out)
	}
	if got := heard(); !slices.Equal(got, []string{""}) {
		t.Errorf("the job has heard %q", got)
	}
	vm.Cancel(t, job)
	sameOnBoth(t, before)
}

// Slurmctld is on node1, and so root calls there, from near and far, who waits for an allocation or a step.
func TestRootsCallsToAnSrunOutsideOfJobsReachNoJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.TwoNodes, vm.EverySlurm)
	before := attacked(t)
	var jobs []string
	var ears []func() []string
	for range vm.HCAs(t) {
		job, heard := listens(t, "bob")
		jobs, ears = append(jobs, job), append(ears, heard)
	}
	for _, options := range []string{"-N 2 -n 2", "-N 2 -n 2 --begin=now+1", "-w node1 -n 1"} {
		out, err := vm.TryAs("alice", vm.Timeout+"srun "+options+" echo called back")
		if err != nil || !strings.Contains(out, "called back\n") {
			t.Errorf("srun %s: %v: %s", options, err, out)
		}
	}
	for i, heard := range ears {
		if got := heard(); !slices.Equal(got, []string{""}) {
			t.Errorf("job %s has heard %q", jobs[i], got)
		}
		vm.Cancel(t, jobs[i])
	}
	sameOnBoth(t, before)
}
