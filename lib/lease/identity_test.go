package lease

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// cluster is two nodes, a host h that is slurmctld's in their network, and a router behind which there
// is another host, inet. Jobs are the project's own: its prologs make them.
type cluster struct {
	t             *testing.T
	node          [2]*netnstest.NS
	state         [2]string
	h, r, inet    *netnstest.NS
	conf, program string
	before        [2]string
}

// The jobs of a cluster: j and k have both nodes, and s has the second alone.
var (
	jobJ = testLease{testJob, "hca0"}
	jobK = testLease{testJob + 1, "hca1"}
	jobS = testLease{testJob + 2, "hca2"}
)

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, h: netnstest.New(t), r: netnstest.New(t), inet: netnstest.New(t), conf: t.TempDir() + "/slurm.conf"}
	program, err := filepath.Abs("testdata/echo.py")
	if err != nil {
		t.Fatal(err)
	}
	c.program = program
	c.r.IP("link add br0 type bridge")
	c.r.Run("ip link set br0 up; ip addr add 10.9.0.254/24 dev br0; ip addr add 203.0.113.1/24 dev br0; sysctl -qw net.ipv4.ip_forward=1; ip route add 8.8.8.8 via 203.0.113.9")
	plug := func(ns *netnstest.NS, name string) {
		ns.IP("link add eth0 type veth peer name " + name + " netns " + c.r.Path)
		c.r.Run("ip link set " + name + " master br0 up")
		ns.Run("ip link set lo up; ip link set eth0 up")
	}
	for i := range c.node {
		c.node[i], c.state[i] = netnstest.New(t), t.TempDir()
		plug(c.node[i], fmt.Sprintf("n%d", i+1))
		c.node[i].Run(fmt.Sprintf(`sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1 net.ipv4.ip_forward=0
ip addr add 10.9.0.%d/24 brd + dev eth0; ip route add default via 10.9.0.254
for n in 0 1 2; do ip link add hca$n type veth peer name far$n; ip link set far$n up; ip link set hca$n up; ip addr add 10.$n.0.%d/24 dev hca$n; done
while ip -6 addr | grep -q tentative || `+testRises+`; do sleep 0.02; done`, i+1, i+1))
	}
	plug(c.h, "ctl")
	c.h.Run("ip addr add 10.9.0.99/24 dev eth0; ip route add default via 10.9.0.254")
	plug(c.inet, "inet")
	c.inet.Run("ip addr add 203.0.113.9/24 dev eth0; ip addr add 8.8.8.8/32 dev lo; ip route add default via 203.0.113.1")
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=ctl(10.9.0.99)\n")
	t.Setenv("GRESNET_BED_UPLINK", config.UplinkAuto)
	t.Setenv("GRESNET_BED_PINS", cgrouptest.Pins(t))
	t.Setenv("GRESNET_BED_CONF", c.conf)
	for i := range c.node {
		c.before[i] = testPicture(c.node[i])
	}
	return c
}

func (c *cluster) write(conf string) {
	c.t.Helper()
	if err := os.WriteFile(c.conf, []byte(conf), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// run runs a prolog or an epilog on a node of a job.
func (c *cluster) run(l testLease, i int, nodes, program string) {
	c.t.Helper()
	c.t.Setenv("GRESNET_BED_NODES", nodes)
	c.t.Setenv("GRESNET_BED_NODE", fmt.Sprintf("node%d", i+1))
	l.run(c.t, c.node[i], c.state[i], program, never)
}

func (c *cluster) both(l testLease, program string) {
	c.t.Helper()
	for i := range c.node {
		c.run(l, i, "node[1-2]", program)
	}
}

// same says what of the nodes is not as it was before the first job.
func (c *cluster) same() {
	c.t.Helper()
	for i := range c.node {
		testSame(c.t, c.node[i], c.state[i], c.before[i])
	}
}

// job returns the namespace of a job on a node.
func (c *cluster) job(l testLease, i int) string {
	return fmt.Sprintf("%s/jobs/%d/netns", c.state[i], l.job)
}

// in runs a command in a namespace, and returns what it prints.
func (c *cluster) in(path, input string, command ...string) string {
	c.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=" + path}, command...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// serve runs servers in a namespace till the test ends.
func (c *cluster) serve(path, name, address string, ports ...string) {
	c.t.Helper()
	c.start(path, append([]string{"serve", name, address}, ports...)...)
}

// squat runs servers of a user in a namespace till the test ends.
func (c *cluster) squat(path, name string, ports ...string) {
	c.t.Helper()
	c.start(path, append([]string{"squat", "1001", name, "0.0.0.0"}, ports...)...)
}

// start runs echo.py in a namespace till the test ends, or end is called.
func (c *cluster) start(path string, arguments ...string) (end func()) {
	c.t.Helper()
	server := exec.Command("nsenter", append([]string{"--net=" + path, "python3", c.program}, arguments...)...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	end = func() { server.Process.Kill(); server.Wait() }
	c.t.Cleanup(end)
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		c.t.Fatalf("echo.py %v: %v", arguments, err)
	}
	return end
}

// call is a connection that somebody begins, and how it ends.
type call struct {
	what string
	path string // of whose namespace
	to   string // like tcp 10.9.0.2 8080
	want string
	more string // what echo.py is told besides
}

// check makes calls, all of one namespace by one program.
func (c *cluster) check(calls ...call) {
	c.t.Helper()
	of := map[string][]call{}
	for _, one := range calls {
		of[one.path] = append(of[one.path], one)
	}
	for path, all := range of {
		var input strings.Builder
		for _, one := range all {
			patience := patient
			if one.want == "silence" {
				patience = brief
			}
			fmt.Fprintln(&input, one.to, patience, one.more)
		}
		got := strings.Split(c.in(path, input.String(), "python3", c.program, "call"), "\n")
		for i, one := range all {
			if len(got) != len(all) || got[i] != one.want {
				c.t.Errorf("%s (%s %s): %q, want %q", one.what, one.to, one.more, got[min(i, len(got)-1)], one.want)
			}
		}
	}
}

// kinds returns a call by TCP and by UDP.
func kinds(what, path, to, want string) []call {
	return []call{{what: what, path: path, to: "tcp " + to, want: want}, {what: what, path: path, to: "udp " + to, want: want}}
}

const getsockname = `import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 9))
print(s.getsockname()[0])`

func TestWhateverAProgramAsksItGetsAnAddressThatItsPeersReach(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.both(jobJ, "prolog")
	j1, j2 := c.job(jobJ, 0), c.job(jobJ, 1)
	ask := func(what, want string, command ...string) {
		t.Helper()
		if got := c.in(j1, "", command...); !strings.Contains(" "+got+" ", " "+want+" ") {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	for _, to := range []string{"8.8.8.8", "10.9.0.99", "10.9.0.2", "10.9.0.1"} {
		ask("connect and getsockname, "+to, "10.9.0.1", "python3", "-c", getsockname, to)
	}
	ask("the interface of the default route", "dev eth0 proto static src 10.9.0.1", "ip", "route", "show", "default")
	ask("the default route of the lowest metric in all tables", "eth0", "sh", "-c", `ip -4 route show table all default | awk '
{ for (i = 1; i < NF; i++) w[$i] = $(i + 1) }
!dev || w["metric"] < metric { dev = w["dev"]; metric = w["metric"]; next }
w["metric"] == metric { dev = dev "+" w["dev"] }
END { print dev }'`)
	ask("the address of that interface", "10.9.0.1/24", "sh", "-c", `ip -br -4 addr show dev "$(awk '$2 == "00000000" { print $1; exit }' /proc/net/route)"`)
	ask("the route to anywhere", "dev eth0 src 10.9.0.1", "ip", "route", "get", "1.1.1.1")
	ask("the address of its interface", "10.9.0.1/24", "sh", "-c", `ip -br -4 addr show dev "$(ip route get 8.8.8.8 | sed 's/.* dev \([^ ]*\).*/\1/;q')"`)
	for _, way := range []string{"tcp dport 443", "udp dport 1", "udp dport 65534", "icmp"} {
		ask("the route that packets take there", "dev uplink0 table 490 src 10.9.0.1", strings.Fields("ip route get 1.1.1.1 ipproto "+way)...)
	}
	ask("the route to a host beside the node", "dev uplink0 src 10.9.0.1", "ip", "route", "get", "10.9.0.99")
	ask("the route to a peer", "dev eth0 src 10.9.0.1", "ip", "route", "get", "10.9.0.2")
	ask("the address of eth0", "10.9.0.1/24", "ip", "-br", "-4", "addr", "show", "dev", "eth0")
	if got := c.in(j1, "", "hostname", "-I"); !strings.HasPrefix(got, "10.9.0.1 ") {
		t.Errorf("hostname -I: %q", got)
	}
	ask("SIOCGIFADDR", "10.9.0.1", "python3", "-c", `import fcntl, socket, struct
print(socket.inet_ntoa(fcntl.ioctl(socket.socket(), 0x8915, struct.pack("256s", b"eth0"))[20:24]))`)
	ask("the interface's number", c.node[0].Run("cat /sys/class/net/eth0/ifindex | tr -d '\\n'"), "python3", "-c", `import socket; print(socket.if_nametoindex("eth0"))`)
	ask("the broadcast address", "10.9.0.255", "python3", "-c", `import fcntl, socket, struct
print(socket.inet_ntoa(fcntl.ioctl(socket.socket(), 0x8919, struct.pack("256s", b"eth0"))[20:24]))`)
	ask("the state", "UP", "sh", "-c", "ip -br link show dev eth0 | tr -s ' '")
	ask("the MTU", "1500", "sh", "-c", "ip -o link show dev eth0 | sed 's/.* mtu //'")

	c.serve(j1, "j1", "0.0.0.0", "8080")
	c.serve(j2, "j2", "0.0.0.0", "8080")
	c.serve(j1, "bound", "10.9.0.1", "7778")
	for _, calls := range [][]call{
		kinds("a peer", j1, "10.9.0.2 8080", "j2<10.9.0.1"), kinds("the other way", j2, "10.9.0.1 8080", "j1<10.9.0.2"),
		kinds("itself", j1, "10.9.0.1 8080", "j1<10.9.0.1"), kinds("its loopback", j1, "127.0.0.1 8080", "j1<127.0.0.1"),
		kinds("a peer that is bound to its address", j2, "10.9.0.1 7778", "bound<10.9.0.2"), kinds("itself there", j1, "10.9.0.1 7778", "bound<10.9.0.1"),
	} {
		c.check(calls...)
	}
	var sizes []call
	for _, size := range []string{"1400", "1422", "1423", "1472", "1473", "2000", "4000", "9000"} {
		sizes = append(sizes, call{what: "a datagram", path: j1, to: "udp 10.9.0.2 8080", want: "j2<10.9.0.1", more: "size=" + size},
			call{what: "a datagram", path: j2, to: "udp 10.9.0.1 8080", want: "j1<10.9.0.2", more: "size=" + size})
	}
	c.check(sizes...)
	c.both(jobJ, "epilog")
	c.same()
}

func TestAMulticastAndABroadcastReachTheJobOnItsNodesAndNobodyElse(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "prolog")
	}
	groups := []string{"239.1.2.3", "10.9.0.255", "255.255.255.255"}
	var ends []func()
	for path, name := range map[string]string{
		c.job(jobJ, 0): "j1", c.job(jobJ, 1): "j2", c.job(jobK, 0): "k1", c.job(jobK, 1): "k2", c.node[0].Path: "n1", c.node[1].Path: "n2", c.h.Path: "h",
	} {
		for _, group := range groups {
			ends = append(ends, c.start(path, "hear", name, group, "7219"))
		}
	}
	for path, want := range map[string]string{c.job(jobJ, 0): "j1 j2", c.job(jobJ, 1): "j1 j2", c.job(jobK, 0): "k1 k2", c.h.Path: "h n1 n2"} {
		for _, group := range groups {
			if got := c.in(path, "", "python3", c.program, "gather", group, "7219"); got != want {
				t.Errorf("%s is heard by %q at %s, want %q", path, got, group, want)
			}
		}
	}
	for _, end := range ends {
		end()
	}
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "epilog")
	}
	c.same()
}

func TestServicesOfTheNodesAreReachedUnderTheirAddresses(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "prolog")
	}
	c.run(jobS, 1, "node2", "prolog")
	j1, k1, s1 := c.job(jobJ, 0), c.job(jobK, 0), c.job(jobS, 1)
	for i, node := range c.node {
		c.serve(node.Path, fmt.Sprintf("n%d", i+1), "0.0.0.0", "22", "53", "111", "6817", "6818", "9100")
	}
	c.serve(j1, "j1", "0.0.0.0", "8080", "7778")
	for i, l := range []testLease{jobK, jobK} {
		c.serve(c.job(l, i), fmt.Sprintf("k%d", i+1), "0.0.0.0", "8080", "7777")
	}
	c.serve(c.job(jobJ, 1), "j2", "0.0.0.0", "7777")
	c.serve(s1, "s1", "0.0.0.0", "8080")
	c.serve(c.h.Path, "h", "0.0.0.0", "53", "80", "8080")
	c.serve(c.inet.Path, "inet", "0.0.0.0", "53", "80")
	var all []call
	for _, port := range []string{"22", "53", "111"} {
		all = append(all, kinds("its node", j1, "10.9.0.1 "+port, "n1<10.9.0.1")...)
		all = append(all, kinds("a peer node", j1, "10.9.0.2 "+port, "n2<10.9.0.1")...)
	}
	c.check(all...)
	// Slurm's own on the node calls back whom it sees.
	c.check(
		call{what: "its node's slurmd", path: j1, to: "tcp 10.9.0.1 6818", want: "n1<10.9.0.1"}, call{what: "a peer node's slurmd", path: j1, to: "tcp 10.9.0.2 6818", want: "n2<10.9.0.1"},
		call{what: "its node at a port of no service", path: j1, to: "tcp 10.9.0.1 9100", want: "refused"}, call{what: "a peer node there", path: j1, to: "tcp 10.9.0.2 9100", want: "refused"},
		call{what: "a host with several addresses", path: j1, to: "tcp 8.8.8.8 53", want: "inet<10.9.0.1"},
	)
	for _, calls := range [][]call{
		kinds("a host of its network", j1, "10.9.0.99 53", "h<10.9.0.1"), kinds("a host beyond", j1, "203.0.113.9 53", "inet<10.9.0.1"),
		kinds("the other job's peer", k1, "10.9.0.2 8080", "k2<10.9.0.1"), kinds("the same port", k1, "10.9.0.2 7777", "k2<10.9.0.1"), kinds("the other job itself", k1, "10.9.0.1 8080", "k1<10.9.0.1"),
		kinds("a job of one node itself", s1, "10.9.0.2 8080", "s1<10.9.0.2"),
	} {
		c.check(calls...)
	}
	c.check(
		call{what: "another job by its address", path: k1, to: "tcp 10.9.0.1 7778", want: "refused"},
		call{what: "a job of one node at its node", path: s1, to: "tcp 10.9.0.2 22", want: "n2<10.9.0.2"},
		call{what: "a job of one node at a node of others", path: s1, to: "tcp 10.9.0.1 9100", want: "n1<10.9.0.2"},
		call{what: "a job of one node at the job there", path: s1, to: "tcp 10.9.0.1 8080", want: "refused"},
		call{what: "a router's error", path: j1, to: "udp 203.0.113.9 53", want: "No route to host", more: "ttl=1"},
		call{what: "a host's error", path: j1, to: "udp 10.9.0.99 9999", want: "refused"},
		call{what: "a service's node by a bound socket of a user's", path: j1, to: "tcp 10.9.0.1 9100", want: "silence", more: "uid=65534 dev=uplink0"},
		call{what: "a peer node by a bound socket of a user's", path: j1, to: "tcp 10.9.0.2 9100", want: "silence", more: "uid=65534 dev=uplink0"},
	)
	// A kernel that asks where answers ought to come from.
	c.node[0].Run("sysctl -qw net.ipv4.conf.all.rp_filter=1")
	c.check(
		call{what: "its node, strictly", path: j1, to: "tcp 10.9.0.1 22", want: "n1<10.9.0.1"}, call{what: "a peer node, strictly", path: j1, to: "tcp 10.9.0.2 22", want: "n2<10.9.0.1"},
		call{what: "a host, strictly", path: j1, to: "tcp 10.9.0.99 80", want: "h<10.9.0.1"},
	)
	c.node[0].Run("sysctl -qw net.ipv4.conf.all.rp_filter=0")
	c.both(jobJ, "epilog")
	c.check(call{what: "a job when another has ended", path: k1, to: "tcp 10.9.0.2 22", want: "n2<10.9.0.1"})
	c.both(jobK, "epilog")
	c.run(jobS, 1, "node2", "epilog")
	c.same()
}

// The blocks of the first two jobs of a node.
const blockJ, blockK = "16400", "17500"

func TestSlurmCallsAJobAndNobodyElseDoes(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nNodeName=node3 NodeAddr=203.0.113.10\nSlurmctldHost=ctl(10.9.0.99)\n")
	c.inet.Run("ip addr add 203.0.113.10/32 dev lo")
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "prolog")
	}
	j1, k1, n1, n2 := c.job(jobJ, 0), c.job(jobK, 0), c.node[0].Path, c.node[1].Path
	c.serve(j1, "j1", "0.0.0.0", "8080", blockJ, "16401", "22")
	c.serve(k1, "k1", "0.0.0.0", "8080", blockJ, blockK)
	c.serve(n1, "n1", "0.0.0.0", "16401", "9100")
	c.check(
		call{what: "slurmctld", path: c.h.Path, to: "tcp 10.9.0.1 " + blockJ, want: "j1<10.9.0.99"},
		call{what: "slurmctld at the other job", path: c.h.Path, to: "tcp 10.9.0.1 " + blockK, want: "k1<10.9.0.99"},
		call{what: "slurmd of a peer node", path: n2, to: "tcp 10.9.0.1 " + blockJ, want: "j1<198.19.0.1"},
		call{what: "slurmd of a node that the job does not have", path: c.inet.Path, to: "tcp 10.9.0.1 " + blockK, want: "k1<203.0.113.10", more: "src=203.0.113.10"},
		call{what: "slurmctld at a port of a block where the node listens by now", path: c.h.Path, to: "tcp 10.9.0.1 16401", want: "j1<10.9.0.99"},
		call{what: "slurmctld by UDP", path: c.h.Path, to: "udp 10.9.0.1 " + blockJ, want: "j1<10.9.0.99"},
		call{what: "slurmctld at another port of the job's", path: c.h.Path, to: "tcp 10.9.0.1 8080", want: "refused"},
		call{what: "slurmctld at a port of nobody's", path: c.h.Path, to: "tcp 10.9.0.1 22", want: "refused"},
		call{what: "somebody else", path: c.inet.Path, to: "tcp 10.9.0.1 " + blockJ, want: "silence"},
		call{what: "root of the node", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "j1<198.19.0.0"},
		call{what: "root at the other job", path: n1, to: "tcp 10.9.0.1 " + blockK, want: "k1<198.19.0.0"},
		call{what: "a user of the node", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "silence", more: "uid=65534"},
		call{what: "the job's user there", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "j1<198.19.0.0", more: "uid=1000"},
		call{what: "a user of the node by the job's end", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "silence", more: "uid=65534 dev=job4711"},
		call{what: "a user of the node by the job's end, to all", path: n1, to: "udp 224.0.0.1 8080", want: "silence", more: "uid=65534 dev=job4711"},
		call{what: "another job", path: k1, to: "tcp 10.9.0.1 " + blockJ, want: "silence", more: "dev=uplink0"},
		call{what: "another job from another node", path: c.job(jobJ, 1), to: "tcp 10.9.0.1 " + blockK, want: "silence", more: "uid=1000 dev=uplink0"},
	)
	c.h.Run("ip route add 10.2.0.1 via 10.9.0.1")
	c.check(call{what: "slurmctld at another address of the node", path: c.h.Path, to: "tcp 10.2.0.1 " + blockJ, want: "silence"})
	for _, one := range []struct {
		job  testLease
		want string
	}{{jobJ, "16384\t17407"}, {jobK, "17408\t18431"}} {
		if got := c.in(c.job(one.job, 0), "", "cat", "/proc/sys/net/ipv4/ip_local_port_range"); got != one.want {
			t.Errorf("job %d has the ports %q, want %q", one.job.job, got, one.want)
		}
	}
	// What users of the job can forge.
	c.check(
		call{what: "under another address", path: j1, to: "udp 10.9.0.99 53", want: "Network is unreachable", more: "uid=65534 src=10.9.0.77 free=1"},
		call{what: "under the loopback", path: j1, to: "udp 10.9.0.99 53", want: "Invalid argument", more: "uid=65534 src=127.0.0.1"},
		call{what: "past the peers by eth0", path: j1, to: "tcp 10.9.0.99 80", want: "silence", more: "uid=65534 dev=eth0"},
	)
	for _, l := range []testLease{jobK, jobJ} {
		c.both(l, "epilog")
	}
	c.same()
}

// Where slurmctld is on a node of the job, the node itself calls.
func TestSlurmctldOnTheJobsOwnNodeCallsTheJobAndUsersThereDoNot(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=node1(10.9.0.1)\nSlurmUser=daemon\n")
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "prolog")
	}
	j1, k1, j2, n1 := c.job(jobJ, 0), c.job(jobK, 0), c.job(jobJ, 1), c.node[0].Path
	c.serve(j1, "j1", "0.0.0.0", "8080", blockJ, blockK, "16401")
	c.serve(n1, "n1", "0.0.0.0", "16401")
	c.serve(k1, "k1", "0.0.0.0", blockK)
	c.serve(j2, "j2", "0.0.0.0", blockJ)
	c.check(
		call{what: "root", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "j1<198.19.0.0"},
		call{what: "root at the other job", path: n1, to: "tcp 10.9.0.1 " + blockK, want: "k1<198.19.0.0"},
		call{what: "slurmctld, as SlurmUser", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "j1<198.19.0.0", more: "uid=1"},
		call{what: "slurmctld at the peer's job", path: n1, to: "tcp 10.9.0.2 " + blockJ, want: "j2<198.19.0.1"},
		call{what: "a user", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "silence", more: "uid=65534"},
		call{what: "root where a program of the node listens by now", path: n1, to: "tcp 10.9.0.1 16401", want: "j1<198.19.0.0"},
		call{what: "a user there", path: n1, to: "tcp 10.9.0.1 16401", want: "silence", more: "uid=65534"},
		call{what: "root at another port", path: n1, to: "tcp 10.9.0.1 8080", want: "refused"},
		call{what: "a job at itself", path: j1, to: "tcp 10.9.0.1 " + blockK, want: "j1<10.9.0.1"},
	)
	for _, l := range []testLease{jobK, jobJ} {
		c.both(l, "epilog")
	}
	c.same()
}

// Nobody keeps a user from any port, and in the job the port is free all the same.
func TestWhatComesForAJobsPortsIsTheJobsWhoeverListensOnTheNode(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	n1, n2 := c.node[0].Path, c.node[1].Path
	c.squat(n1, "squatter", blockJ, "16401", blockK)
	c.serve(c.h.Path, "h", "0.0.0.0", "80")
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	c.serve(j1, "j1", "0.0.0.0", blockJ)
	c.squat(n1, "squatter", "16402")
	for port, want := range map[string]string{blockJ: "j1<%s", "16401": "refused", "16402": "refused"} {
		answer := func(seen string) string { return strings.ReplaceAll(want, "%s", seen) }
		c.check(
			call{what: "slurmctld", path: c.h.Path, to: "tcp 10.9.0.1 " + port, want: answer("10.9.0.99")},
			call{what: "slurmd of a peer node", path: n2, to: "tcp 10.9.0.1 " + port, want: answer("198.19.0.1")},
			call{what: "root of the node", path: n1, to: "tcp 10.9.0.1 " + port, want: answer("198.19.0.0")},
			call{what: "a user of the node", path: n1, to: "tcp 10.9.0.1 " + port, want: "silence", more: "uid=1002"},
			call{what: "somebody else", path: c.inet.Path, to: "tcp 10.9.0.1 " + port, want: "silence"},
			call{what: "slurmctld by UDP", path: c.h.Path, to: "udp 10.9.0.1 " + port, want: answer("10.9.0.99")},
			call{what: "the squatter by the loopback", path: n1, to: "tcp 127.0.0.1 " + port, want: "squatter<127.0.0.1", more: "uid=1001"},
		)
	}
	c.check(
		call{what: "slurmctld at a port of no job", path: c.h.Path, to: "tcp 10.9.0.1 " + blockK, want: "squatter<10.9.0.99"},
		call{what: "a user of the node by TCP", path: n1, to: "tcp 10.9.0.99 80", want: "h<10.9.0.1", more: "uid=1001"},
		call{what: "a user of the node by TCP from the block", path: n1, to: "tcp 10.9.0.99 80", want: "silence", more: "uid=1001 own=16600"},
		call{what: "a user of the node by UDP from the block", path: n1, to: "udp 10.9.0.99 80", want: "silence", more: "uid=1001 own=16601"},
		call{what: "root from there", path: n1, to: "tcp 10.9.0.99 80", want: "silence", more: "own=16602"},
	)
	c.both(jobJ, "epilog")
	c.check(call{what: "slurmctld when the job has ended", path: c.h.Path, to: "tcp 10.9.0.1 16401", want: "squatter<10.9.0.99"})
	c.same()
}

func TestAServiceOfTheNodeKeepsItsPortFromJobsAndAUserDoesNot(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.squat(c.node[0].Path, "squatter", "18500", "20500")
	c.serve(c.node[0].Path, "service", "0.0.0.0", "17000")
	c.both(jobJ, "prolog")
	c.both(jobK, "prolog")
	for i, want := range map[int][2]string{0: {"17408\t18431", "18432\t19455"}, 1: {"16384\t17407", "17408\t18431"}} {
		for at, l := range []testLease{jobJ, jobK} {
			if got := c.in(c.job(l, i), "", "cat", "/proc/sys/net/ipv4/ip_local_port_range"); got != want[at] {
				t.Errorf("job %d has the ports %q on node%d, want %q", l.job, got, i+1, want[at])
			}
		}
	}
	c.check(kinds("slurmctld at the service", c.h.Path, "10.9.0.1 17000", "service<10.9.0.99")...)
	for _, l := range []testLease{jobK, jobJ} {
		c.both(l, "epilog")
	}
	c.same()
}

func TestWhereEachSrunOfTheNodeListensNoJobDoes(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=ctl(10.9.0.99)\nSrunPortRange=17000-17100\n")
	c.squat(c.node[0].Path, "srun", "17000")
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	if got := c.in(j1, "", "cat", "/proc/sys/net/ipv4/ip_local_port_range"); got != "17408\t18431" {
		t.Errorf("the job has the ports %q", got)
	}
	c.serve(j1, "j1", "0.0.0.0", "17000")
	c.check(
		call{what: "slurmctld at a user's srun", path: c.h.Path, to: "tcp 10.9.0.1 17000", want: "srun<10.9.0.99"},
		call{what: "a peer's slurmd there", path: c.node[1].Path, to: "tcp 10.9.0.1 17000", want: "srun<10.9.0.2"},
	)
	c.both(jobJ, "epilog")
	c.same()
}

// Slurmd calls an srun back where that listens: in a job that nobody calls, at ports where any user of the node can.
func TestAnSrunThatNobodyWouldCallReachesNoSlurmdOfAnotherNode(t *testing.T) {
	netnstest.Slow(t)
	for _, conf := range []struct{ name, more string }{
		{"all of the node's have one range", "SrunPortRange=60001-60100\n"},
		{"slurmd calls others' slurmd", "TreeWidth=1\n"},
	} {
		t.Run(conf.name, func(t *testing.T) {
			c := newCluster(t)
			c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=ctl(10.9.0.99)\n" + conf.more)
			c.both(jobJ, "prolog")
			j1 := c.job(jobJ, 0)
			for i, node := range c.node {
				c.serve(node.Path, fmt.Sprintf("n%d", i+1), "0.0.0.0", "22", "6818")
			}
			c.serve(c.h.Path, "h", "0.0.0.0", "6817", "6818")
			c.check(
				call{what: "slurmd of a peer node", path: j1, to: "tcp 10.9.0.2 6818", want: "Permission denied"},
				call{what: "slurmd of another node", path: j1, to: "tcp 10.9.0.99 6818", want: "Permission denied"},
				call{what: "its node's slurmd", path: j1, to: "tcp 10.9.0.1 6818", want: "Permission denied"},
				call{what: "slurmctld", path: j1, to: "tcp 10.9.0.99 6817", want: "h<10.9.0.1"},
				call{what: "sshd of a peer node", path: j1, to: "tcp 10.9.0.2 22", want: "n2<10.9.0.1"},
			)
			c.both(jobJ, "epilog")
			c.same()
		})
	}
}

// On a node that has slurmctld, too, the kernel chooses the ports of everybody's srun.
func TestRootCallsTheSrunOfAUserAndNoJobWhereTheKernelChoosesPorts(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	n1 := c.node[0].Path
	c.node[0].Run("sysctl -qw net.ipv4.ip_local_port_range='17000 60999'")
	c.before[0] = testPicture(c.node[0])
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=node1(10.9.0.1)\n")
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	c.serve(j1, "j1", "0.0.0.0", blockJ, "61500")
	c.squat(n1, "srun", blockJ)
	c.check(
		call{what: "root at a user's srun", path: n1, to: "tcp 10.9.0.1 " + blockJ, want: "srun<10.9.0.1"},
		call{what: "root at the job's", path: n1, to: "tcp 10.9.0.1 61500", want: "j1<198.19.0.0"},
		call{what: "a peer's slurmd at a user's srun", path: c.node[1].Path, to: "tcp 10.9.0.1 " + blockJ, want: "srun<10.9.0.2"},
	)
	c.both(jobJ, "epilog")
	c.same()
}

// Whoever answers to a port of the node's reaches who has it there, and not a job that has sent from the same.
func TestAJobDoesNotLeaveByAPortOfAService(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	c.serve(c.node[0].Path, "service", "0.0.0.0", "5353")
	c.serve(c.inet.Path, "inet", "0.0.0.0", "9000")
	c.check(
		call{what: "the job by UDP", path: j1, to: "udp 203.0.113.9 9000", want: "Permission denied", more: "uid=1000 own=5353"},
		call{what: "the job by TCP", path: j1, to: "tcp 203.0.113.9 9000", want: "Permission denied", more: "uid=1000 own=5353"},
		call{what: "the job by UDP to a host of its network", path: j1, to: "udp 10.9.0.99 9000", want: "No route to host", more: "uid=1000 own=5353"},
		call{what: "the job by TCP to a host of its network", path: j1, to: "tcp 10.9.0.99 9000", want: "No route to host", more: "uid=1000 own=5353"},
	)
	c.serve(j1, "j1", "0.0.0.0", "5353")
	c.check(
		call{what: "the host by UDP", path: c.inet.Path, to: "udp 10.9.0.1 5353", want: "service<203.0.113.9", more: "own=9000"},
		call{what: "the host by TCP", path: c.inet.Path, to: "tcp 10.9.0.1 5353", want: "service<203.0.113.9", more: "own=9001"},
	)
	c.both(jobJ, "epilog")
	c.same()
}

func TestOthersReachAJobThatHasTheNodeToItselfUnderItsAddress(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	t.Setenv("GRESNET_BED_INBOUND", "1")
	t.Setenv(fmt.Sprintf("GRESNET_BED_EXCLUSIVE_%d", jobJ.job), "NODE")
	c.write("NodeName=node[1-2] NodeAddr=10.9.0.[1-2]\nSlurmctldHost=ctl(10.9.0.99)\nSrunPortRange=60001-60100\n")
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	c.serve(j1, "j1", "10.9.0.1", "8080", blockJ, "60050")
	c.serve(c.node[0].Path, "n1", "0.0.0.0", "9100")
	c.check(kinds("a host", c.h.Path, "10.9.0.1 8080", "j1<10.9.0.99")...)
	c.check(kinds("a host beyond", c.inet.Path, "10.9.0.1 8080", "j1<203.0.113.9")...)
	c.check(kinds("a process of a peer node", c.node[1].Path, "10.9.0.1 8080", "j1<198.19.0.1")...)
	c.check(
		call{what: "a service of the node", path: c.h.Path, to: "tcp 10.9.0.1 9100", want: "n1<10.9.0.99"}, call{what: "a service of the node from a peer", path: c.node[1].Path, to: "tcp 10.9.0.1 9100", want: "n1<10.9.0.2"},
		call{what: "slurmctld where slurm.conf has srun listen", path: c.h.Path, to: "tcp 10.9.0.1 60050", want: "j1<10.9.0.99"},
		call{what: "a peer's slurmd there", path: c.node[1].Path, to: "tcp 10.9.0.1 60050", want: "j1<198.19.0.1"},
	)
	c.both(jobJ, "epilog")
	c.same()
}

func TestANodeAddrOfIPv6IsTheJobsToo(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	for i, node := range c.node {
		node.Run(fmt.Sprintf("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0; ip -6 addr add fd09::%d/64 dev eth0 nodad; while ip -6 addr | grep -q tentative; do sleep 0.02; done", i+1))
		c.before[i] = testPicture(node)
	}
	c.write("NodeName=node1 NodeAddr=fd09::1\nNodeName=node2 NodeAddr=fd09::2\nSlurmctldHost=ctl(10.9.0.99)\n")
	c.both(jobJ, "prolog")
	j1, j2 := c.job(jobJ, 0), c.job(jobJ, 1)
	if got := c.in(j1, "", "sh", "-c", "ip -o -6 addr show dev eth0 | awk '{print $4}'"); got != "fd09::1/64" {
		t.Errorf("eth0 has %q", got)
	}
	c.serve(j1, "j1", "::", "8080")
	c.serve(j2, "j2", "fd09::2", "8080")
	c.serve(c.h.Path, "h", "0.0.0.0", "80")
	c.check(kinds("a peer", j1, "fd09::2 8080", "j2<fd09::1")...)
	c.check(kinds("the other way", j2, "fd09::1 8080", "j1<fd09::2")...)
	c.check(kinds("itself", j1, "fd09::1 8080", "j1<fd09::1")...)
	c.check(call{what: "a host", path: j1, to: "tcp 10.9.0.99 80", want: "h<10.9.0.1"})
	c.both(jobJ, "epilog")
	c.same()
}

func TestAJobWithItsNodesAddressThatIsKilledAnywhereLeavesNothing(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	t.Setenv("GRESNET_BED_NODES", "node[1-2]")
	jobJ.killAnywhere(t, c.node[0], c.state[0], 10, func() {
		testSame(t, c.node[0], c.state[0], c.before[0])
		if tables := overlayTables(t, c.node[0]); tables != "" {
			t.Fatalf("left: %s", tables)
		}
	})
}
