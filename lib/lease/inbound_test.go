package lease

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// listen is servers of a namespace, which say as whom they see who comes: ports like 8888, 8888/udp, or 8888/both
// for one of IPv6 and IPv4.
func listen(t *testing.T, path, name string, ports ...string) {
	t.Helper()
	server := exec.Command("nsenter", append([]string{"--net=" + path, "python3", "-c", `
import select, socket, sys
all = []
for port in sys.argv[2:]:
	number, _, kind = port.partition("/")
	if kind == "udp":
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.bind(("0.0.0.0", int(number)))
	elif kind == "both":
		s = socket.create_server(("::", int(number)), family=socket.AF_INET6, dualstack_ipv6=True)
	else:
		s = socket.create_server(("0.0.0.0", int(number)))
	all.append(s)
print("ready", flush=True)
while True:
	for s in select.select(all, [], [])[0]:
		if s.type == socket.SOCK_DGRAM:
			_, peer = s.recvfrom(99)
			s.sendto((sys.argv[1] + "<" + peer[0]).encode(), peer)
		else:
			c, peer = s.accept()
			c.sendall((sys.argv[1] + "<" + peer[0].removeprefix("::ffff:")).encode())
			c.close()`, name}, ports...)...)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		t.Fatalf("the servers of %s: %v", name, err)
	}
}

// scanned is what answers at ports of an address: who, and as whom the scanner is seen there; or why nobody does.
func scanned(in func(string) string, address string, patience int, ports ...string) string {
	return strings.TrimSpace(in(fmt.Sprintf(`python3 -c '
import errno, socket, sys
for port in sys.argv[3:]:
	number, _, kind = port.partition("/")
	at = (sys.argv[1], int(number))
	try:
		if kind == "udp":
			s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
			s.settimeout(float(sys.argv[2]))
			s.connect(at)
			s.send(b"?")
		else:
			s = socket.create_connection(at, timeout=float(sys.argv[2]))
		print(port + ":" + s.recv(99).decode(), end=" ")
	except TimeoutError:
		print(port + ":silence", end=" ")
	except OSError as e:
		print(port + ":" + errno.errorcode[e.errno], end=" ")
' %s %d %s`, address, patience, strings.Join(ports, " "))))
}

// inboundBed is wayBed where the first job has the node to itself, and the site wants it to be reached.
func inboundBed(t *testing.T) wayOutBed {
	b := wayBed(t)
	t.Setenv("GRESNET_BED_INBOUND", "1")
	t.Setenv(fmt.Sprintf("GRESNET_BED_EXCLUSIVE_%d", b.first.job), "NODE")
	return b
}

func (b wayOutBed) netns(l testLease) string { return fmt.Sprintf("%s/jobs/%d/netns", b.state, l.job) }

func TestOthersReachTheJobThatHasTheNodeToItself(t *testing.T) {
	netnstest.Slow(t)
	b := inboundBed(t)
	before := testPicture(b.node)
	b.first.run(t, b.node, b.state, "prolog", never)
	b.second.run(t, b.node, b.state, "prolog", never)
	all := []string{"900", "6818", "7777", "7778/both", "8888", "8888/udp", "8889/udp"}
	listen(t, b.netns(b.first), "job", all...)
	listen(t, b.netns(b.second), "other", "9999", "9999/udp")
	listen(t, b.node.Path, "node", "7777", "7778/both", "8889/udp")
	check := func(who, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n%q, want\n%q", who, got, want)
		}
	}
	ports := append(strings.Split(strings.ReplaceAll(strings.Join(all, " "), "/both", ""), " "), "9999", "9999/udp")
	want := "900:ECONNREFUSED 6818:ECONNREFUSED 7777:node<10.9.0.1 7778:node<10.9.0.1 8888:job<10.9.0.1 8888/udp:job<10.9.0.1 8889/udp:node<10.9.0.1 9999:ECONNREFUSED 9999/udp:ECONNREFUSED"
	check("a host of the management network at the node", scanned(b.far.Run, "10.9.0.2", patient, ports...), want)
	check("a host of the storage network at the node", scanned(b.stor.Run, "10.7.0.2", patient, "7777", "8888"), "7777:node<10.7.0.1 8888:job<10.7.0.1")
	check("another job", scanned(func(c string) string { return b.nsRun(b.second, c) }, "10.7.0.2", brief, "8888"), "8888:silence")
	check("the other job beyond the node", strings.TrimSpace(b.inFar(t)), "10.9.0.2")
	listen(t, b.node.Path, "node", "8888")
	check("a host when a service of the node's has started", scanned(b.far.Run, "10.9.0.2", patient, "8888", "8888/udp"), "8888:node<10.9.0.1 8888/udp:job<10.9.0.1")
	b.first.run(t, b.node, b.state, "epilog", never)
	check("a host when the job has ended", scanned(b.far.Run, "10.9.0.2", patient, "8888", "8890"), "8888:node<10.9.0.1 8890:ECONNREFUSED")
	b.second.run(t, b.node, b.state, "epilog", never)
	testSame(t, b.node, b.state, before)
}

// nsRun runs a command in the namespace of a lease.
func (b wayOutBed) nsRun(l testLease, command string) string {
	return b.node.Run("nsenter --net=" + b.netns(l) + " " + command)
}

// inFar is as whom a host of the management network sees the second job.
func (b wayOutBed) inFar(t *testing.T) string {
	serve(t, b.far.Path, "10.9.0.1")
	return b.in(b.second, seenAs("10.9.0.1", patient))
}

func TestNobodyReachesAJobUnlessItHasTheNodeAndTheSiteWantsIt(t *testing.T) {
	netnstest.Slow(t)
	for _, c := range []struct{ name, inbound, exclusive string }{
		{"the site does not", "", "NODE"}, {"it shares the node", "1", "NO"}, {"Slurm does not say, nor the kernel how many CPUs there are", "1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := inboundBed(t)
			t.Setenv("GRESNET_BED_INBOUND", c.inbound)
			t.Setenv(fmt.Sprintf("GRESNET_BED_EXCLUSIVE_%d", b.first.job), c.exclusive)
			b.first.run(t, b.node, b.state, "prolog", never)
			listen(t, b.netns(b.first), "job", "8888", "8888/udp")
			if got, want := scanned(b.far.Run, "10.9.0.2", patient, "8888", "8888/udp"), "8888:ECONNREFUSED 8888/udp:ECONNREFUSED"; got != want {
				t.Errorf("a host at the node: %q, want %q", got, want)
			}
			b.first.run(t, b.node, b.state, "epilog", never)
		})
	}
}

func TestOfTwoJobsThatHaveTheNodeInTurnsTheLastIsReachedUntilItEndsAndTheFirewallIsNotAsked(t *testing.T) {
	netnstest.Slow(t)
	b := inboundBed(t)
	t.Setenv(fmt.Sprintf("GRESNET_BED_EXCLUSIVE_%d", b.second.job), "NODE")
	for _, l := range []testLease{b.first, b.second} {
		l.run(t, b.node, b.state, "prolog", never)
		listen(t, b.netns(l), fmt.Sprint(l.job), "8888", "8889")
	}
	b.node.Run(`nft 'table ip site { chain input { type filter hook input priority filter; tcp dport 8888 drop; }; chain forward { type filter hook forward priority filter; tcp dport 8889 drop; }; }'`)
	for _, l := range []testLease{b.second, b.first} {
		want := fmt.Sprintf("8888:%d<10.9.0.1 8889:%[1]d<10.9.0.1", l.job)
		if got := scanned(b.far.Run, "10.9.0.2", patient, "8888", "8889"); got != want {
			t.Errorf("a host: %q, want %q", got, want)
		}
		l.run(t, b.node, b.state, "epilog", never)
	}
}

func TestAJobThatIsReachedAndIsKilledAnywhereLeavesNothing(t *testing.T) {
	netnstest.Slow(t)
	b := inboundBed(t)
	before := testPicture(b.node)
	b.first.killAnywhere(t, b.node, b.state, 9, func() { testSame(t, b.node, b.state, before) })
}
