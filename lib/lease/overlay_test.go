package lease

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/network/virtual"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// testOverlay is the overlay that the stand-in for a prolog makes, if a test says so in
// the environment.
func testOverlay() config.Overlay {
	if os.Getenv("GRESNET_BED_NODES") == "" {
		return config.Overlay{Services: []int{6818}}
	}
	c := config.Default().Overlay
	c.Underlay = os.Getenv("GRESNET_BED_UNDERLAY")
	return c
}

// overlayBed is testBed with another node, on whose side of a cable two namespaces are one
// node and a job of its own.
func overlayBed(t testing.TB) (node, far, farJob *netnstest.NS, state string) {
	node, state = apartBed(t)
	far, farJob = netnstest.New(t), netnstest.New(t)
	node.IP("link add mgmt0 type veth peer name far1 netns " + far.Path)
	node.Run(`sysctl -qw net.ipv6.conf.mgmt0.disable_ipv6=1; ip link set lo up; ip link set mgmt0 up; ip addr add 10.9.0.1/24 dev mgmt0`)
	far.Run(`ip link set far1 up; ip addr add 10.9.0.2/24 dev far1`)
	node.Run("until ip link show mgmt0 | grep -q 'state UP'; do sleep 0.02; done")
	conf := t.TempDir() + "/slurm.conf"
	if err := os.WriteFile(conf, []byte("NodeName=node[1-2] NodeAddr=10.9.0.[1-2] NodeHostname=host[1-2].example.org\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRESNET_BED_CONF", conf)
	t.Setenv("GRESNET_BED_NODES", "node[1-2]")
	t.Setenv("GRESNET_BED_PINS", cgrouptest.Pins(t))
	return node, far, farJob, state
}

// testLeader is the first component of the heterogeneous job that testJob is one of, if a test says where
// the others are.
const testLeader = testJob - 1

// raiseFar makes the other node's end of the overlay of a job, as its prolog would.
func raiseFar(t testing.TB, far, farJob *netnstest.NS, job uint32) {
	t.Helper()
	o := virtual.OverlayOf(job)
	o.Name, o.Port, o.MTU, o.Path, o.Node = "far1", 489, 1500, 1450, netip.MustParseAddr("10.9.0.2")
	o.Address = netip.MustParsePrefix("10.9.0.2/24")
	o.Peers = []virtual.Peer{{Address: netip.MustParseAddr("10.9.0.1"), Node: netip.MustParseAddr("10.9.0.1")}}
	err := far.Do(func() error { return virtual.MakeOverlay(o, farJob.FD()) })
	if err == nil {
		err = farJob.Do(func() error { return virtual.RaiseOverlay(o) })
	}
	if err != nil {
		t.Fatal(err)
	}
	farJob.Run("ip link set lo up")
}

func TestAJobsNodesReachEachOtherByTheOverlayAndNothingIsLeftOfIt(t *testing.T) {
	netnstest.Slow(t)
	for name, c := range map[string]struct {
		nodes, others string
		id            uint32
	}{
		"two nodes of a job":                    {"node[1-2]", "", testJob},
		"two components of a heterogeneous job": {"node1", "node2", testLeader},
	} {
		t.Run(name, func(t *testing.T) {
			node, far, farJob, state := overlayBed(t)
			t.Setenv("GRESNET_BED_NODES", c.nodes)
			t.Setenv("GRESNET_BED_OTHERS", c.others)
			meet(t, node, far, farJob, state, c.id)
		})
	}
}

// meet has processes of a job on two nodes, whose network has an id, connect.
func meet(t *testing.T, node, far, farJob *netnstest.NS, state string, id uint32) {
	before := testPicture(node) + node.Run("ss -uanH")
	testRun(t, node, state, "prolog", never)
	raiseFar(t, far, farJob, id)
	if tables := overlayTables(t, node); tables == "" {
		t.Error("no table drops what is forged")
	}
	farJob.Run(`python3 -c '
import os, socket
s = socket.create_server(("10.9.0.2", 7777))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(60)
	c, peer = s.accept()
	c.sendall((peer[0] + " " + str(len(c.recv(100000, socket.MSG_WAITALL)))).encode())
'`)
	got := inLease(node, state, `ip -o -4 addr show dev mgmt0; ip -6 addr show dev mgmt0; python3 -c "
import socket
s = socket.create_connection((\"10.9.0.2\", 7777), timeout=30)
s.sendall(bytes(100000))
print(s.recv(99).decode())"`)
	if !strings.Contains(got, " 10.9.0.1/24 ") || !strings.Contains(got, "\n10.9.0.1 100000\n") || strings.Contains(got, "inet6") {
		t.Errorf("the job has %q, and the server was to see 10.9.0.1", got)
	}
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, strings.TrimSuffix(before, node.Run("ss -uanH")))
	if tables := overlayTables(t, node); tables != "" {
		t.Errorf("left: %s", tables)
	}
}

// leadFar has the other node's job, which has an HCA at 10.0.0.77, ask for addresses at 10.1.0.0/24.
func leadFar(t *testing.T, farJob *netnstest.NS) {
	t.Helper()
	o := virtual.OverlayOf(testJob)
	o.Address, o.Path = netip.MustParsePrefix("10.9.0.2/24"), 1450
	rails, own := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}, []netip.Addr{netip.MustParseAddr("10.0.0.77")}
	if err := farJob.Do(func() error { return virtual.LeadRails(o, rails, own) }); err != nil {
		t.Fatal(err)
	}
}

func TestAJobReachesItsPeersByTheAddressesOfHCAsThatItHasOnlyThere(t *testing.T) {
	netnstest.Slow(t)
	own, other := testLease{testJob, "hca1"}, testLease{testJob + 1, "hca0"}
	for _, held := range []bool{false, true} { // whether another job of the node has the HCA of that network
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			node, far, farJob, state := overlayBed(t)
			node.Run("sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1")
			for _, l := range []testLease{other, own} {
				if l == own || held {
					l.run(t, node, state, "prolog", never)
					defer l.run(t, node, state, "epilog", never)
				}
			}
			raiseFar(t, far, farJob, testJob)
			farJob.Run(`ip link add there0 type veth peer name there1; ip link set there1 up; ip link set there0 up; ip addr add 10.0.0.77/24 dev there0`)
			leadFar(t, farJob)
			farJob.Run(`python3 -c '
import os, socket
s = socket.create_server(("10.0.0.77", 7777))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(60)
	for i in range(2):
		c, peer = s.accept()
		c.sendall(peer[0].encode())
		c.close()
	c, peer = s.accept() # a job says where it listens
	port = int(c.recv(99))
	socket.create_connection(("10.1.0.2", port), 30, ("10.0.0.77", 0)).close()
'`)
			got := inLease(node, state, `python3 -c "
import os, socket
def call(to, own=None): return socket.create_connection((to, 7777), 30, own and (own, 0))
server = socket.create_server((\"10.1.0.2\", 0))
print(call(\"10.0.0.77\", \"10.1.0.2\").recv(99).decode(), call(\"10.0.0.77\").recv(99).decode())
call(\"10.0.0.77\").sendall(str(server.getsockname()[1]).encode())
print(server.accept()[1][0])
try: call(\"10.0.0.99\")
except OSError as e: print(os.strerror(e.errno))
"; ip -4 -o addr show dev mgmt0 | wc -l`)
			if want := "10.1.0.2 10.1.0.2\n10.0.0.77\nNo route to host\n1\n"; got != want {
				t.Errorf("the job has %q, and was to have %q", got, want)
			}
		})
	}
}

func TestTheOverlayTakesTheNetworkOfTheNamesThatTheSiteSays(t *testing.T) {
	node, far, _, state := overlayBed(t)
	node.IP("link add ib0 type veth peer name far2 netns " + far.Path)
	node.Run(`ip link set ib0 up; ip addr add 10.3.0.1/24 dev ib0`)
	hosts := t.TempDir() + "/hosts"
	if err := os.WriteFile(hosts, []byte("10.3.0.1 node1-ib\n10.3.0.2 node2-ib\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRESNET_BED_UNDERLAY", "{node}-ib")
	run := func() ([]byte, error) {
		// The lease's mounts are in there, too.
		both := whole.command(node, state, "prolog", never)
		script := fmt.Sprintf(`mount --bind %s /etc/hosts; "$@"; nsenter --net=%s/jobs/%d/netns sh -c "ip -d link show mgmt0; bridge fdb show dev mgmt0"; GRESNET_BED=epilog "$@"`, hosts, state, testJob)
		both.Args = slices.Insert(both.Args, 2, "unshare", "-m", "sh", "-ec", script, "sh")
		return both.CombinedOutput()
	}
	out, err := run()
	if err != nil || !strings.Contains(string(out), " local 10.3.0.1 ") || !strings.Contains(string(out), " dst 10.3.0.2 ") {
		t.Errorf("%v: %s", err, out)
	}
	before := testPicture(node)
	if err := os.WriteFile(hosts, []byte("10.0.0.2 node1-ib\n10.0.0.3 node2-ib\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = run()
	if err == nil || !strings.Contains(string(out), "overlay: reach node2: 10.0.0.2 is on hca0, which jobs can have") {
		t.Errorf("by what goes to jobs: %v: %s", err, out)
	}
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

// overlayTables are the node's nftables tables of overlays.
func overlayTables(t *testing.T, node *netnstest.NS) string {
	t.Helper()
	return strings.TrimSpace(node.Run(`python3 - <<'E'
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.send(struct.pack("=IHHIIBBH", 20, (10 << 8) | 1, 0x301, 1, 0, 0, 0, 0))
while True:
	m = s.recv(65536)
	while len(m) >= 16:
		n, kind = struct.unpack_from("=IH", m)
		if kind == 3: raise SystemExit
		name = m[24:].split(b"\0")[0]
		if b"overlay" in m[:n]: print(name)
		m = m[(n + 3) & ~3:]
E`))
}

func TestALeaseWithAnOverlayThatIsKilledBeforeOrAfterAnyStepIsUndone(t *testing.T) {
	netnstest.Slow(t)
	node, _, _, state := overlayBed(t)
	before := testPicture(node)
	whole.killAnywhere(t, node, state, 9, func() {
		testSame(t, node, state, before)
		if tables := overlayTables(t, node); tables != "" {
			t.Fatalf("left: %s", tables)
		}
	})
}

func TestAJobThatTampersWithItsOverlayKeepsNoEpilogFromItsEnd(t *testing.T) {
	netnstest.Slow(t)
	for _, tamper := range []string{
		"ip link set mgmt0 down; ip link set mgmt0 name lost; ip link add mgmt0 type veth",
		"ip link del mgmt0",
		"ip link set mgmt0 down; ip link set mgmt0 address 02:00:00:00:00:99",
		"bridge fdb flush dev mgmt0; ip addr flush dev mgmt0; ip link add job1 type veth",
	} {
		node, _, _, state := overlayBed(t)
		before := testPicture(node)
		testRun(t, node, state, "prolog", never)
		inLease(node, state, tamper)
		testRun(t, node, state, "epilog", never)
		testSame(t, node, state, before)
		if tables := overlayTables(t, node); tables != "" {
			t.Errorf("%s: left: %s", tamper, tables)
		}
	}
}

// A VNI has 24 bits, an id more.
func TestAJobWhoseIdLooksLikeAnothersLeavesItsOverlayAlone(t *testing.T) {
	node, _, _, state := overlayBed(t)
	testRun(t, node, state, "prolog", never)
	other := testLease{testJob + 1<<24, "none"}
	out, err := other.command(node, state, "prolog", never).CombinedOutput()
	if want := "the node has a VXLAN of that id and port already"; err == nil || !strings.Contains(string(out), want) {
		t.Fatalf("the other's prolog: %v: %s, wanted %q", err, out, want)
	}
	other.run(t, node, state, "epilog", never)
	if got := inLease(node, state, "ip -o link show type vxlan"); !strings.Contains(got, " mgmt0@") {
		t.Errorf("the job has %q", got)
	}
	if tables := overlayTables(t, node); !strings.Contains(tables, "gresnet_overlay_4711") || strings.Contains(tables, "16781927") {
		t.Errorf("tables %s", tables)
	}
	testRun(t, node, state, "epilog", never)
}

func TestAnOverlayOfWhichNobodyRemembersAnythingIsRemoved(t *testing.T) {
	netnstest.Slow(t)
	for name, forget := range map[string]string{
		"its entry does not read": "sed -i s/overlay/overlord/ %[1]s/journal",
		"its lease is gone":       "umount -l %[1]s/netns; rm -r %[1]s",
	} {
		node, _, _, state := overlayBed(t)
		testRun(t, node, state, "prolog", never)
		if name == "its lease is gone" {
			inLease(node, state, "ip link set hca0 netns "+node.Path+"; ip link set hca1 netns "+node.Path)
		}
		node.Run(fmt.Sprintf(forget, fmt.Sprintf("%s/jobs/%d", state, testJob)))
		out, err := whole.command(node, state, "epilog", never).CombinedOutput()
		t.Logf("%s: the epilog: %v: %s", name, err, out)
		if tables := overlayTables(t, node); tables != "" {
			t.Errorf("%s: left: %s", name, tables)
		}
	}
}

func TestALeaseSaysThatSrunWorksInsideWhereItDoes(t *testing.T) {
	netnstest.Slow(t)
	for name, c := range map[string]struct {
		uplink, nodes, then, slurm string
		want                       bool
	}{
		"on one node":                      {config.UplinkAuto, "node1", "", "TreeWidth=1", true},
		"on two nodes":                     {config.UplinkAuto, "node[1-2]", "", "", true},
		"where slurmd is called by slurmd": {config.UplinkAuto, "node[1-2]", "", "TreeWidth=1", false},
		"without a way out":                {"none", "node[1-2]", "", "", false},
		"without a network between them":   {config.UplinkAuto, "", "", "", false},
		"with an uplink of the site's":     {config.UplinkMacvlan, "node1", "", "", false},
		"where the node has no way out":    {config.UplinkAuto, "node1", "ip link set mgmt0 down", "", false},
		"on two nodes of IPv6": {config.UplinkAuto, "node[1-2]", `sysctl -qw net.ipv6.conf.mgmt0.disable_ipv6=0; ip -6 addr add fd09::1/64 dev mgmt0 nodad
printf 'NodeName=node%d NodeAddr=fd09::%d\n' 1 1 2 2 >$GRESNET_BED_CONF`, "", false},
		"on one node, where slurmd's port is no service": {config.UplinkAuto, "node1", "", "SlurmdPort=7018", false},
	} {
		t.Run(name, func(t *testing.T) {
			node, _, _, state := overlayBed(t)
			t.Setenv("GRESNET_BED_UPLINK", c.uplink)
			t.Setenv("GRESNET_BED_NODES", c.nodes)
			node.Run(c.then)
			node.Run("echo '" + c.slurm + "' >>" + os.Getenv("GRESNET_BED_CONF"))
			testRun(t, node, state, "prolog", never)
			env, err := os.ReadFile(fmt.Sprintf("%s/jobs/%d/env", state, testJob))
			if got := strings.Contains(string(env), "\nGRESNET_SRUN=yes\n"); err != nil || got != c.want {
				t.Errorf("wanted %v, %v:\n%s", c.want, err, env)
			}
			testRun(t, node, state, "epilog", never)
		})
	}
}
