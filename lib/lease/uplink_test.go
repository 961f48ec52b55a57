package lease

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/state/table"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// testUplink is the uplink that the stand-in for a prolog makes. A test says its kind in the environment.
func testUplink() config.Uplink {
	if os.Getenv("GRESNET_BED_UPLINK") == config.UplinkAuto {
		return config.Uplink{Kind: config.UplinkAuto, Name: testName(), Inbound: os.Getenv("GRESNET_BED_INBOUND") != "", Nameservers: []netip.Addr{netip.MustParseAddr("10.9.0.53")}}
	}
	c := config.Uplink{Kind: os.Getenv("GRESNET_BED_UPLINK"), Name: testName(), Nameservers: []netip.Addr{netip.MustParseAddr("10.9.0.53")}}
	c.Routes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	c.Parent, c.Gateway = "mgmt0", netip.MustParseAddr("10.9.0.1")
	c.Addresses, _ = config.ParseRange("10.9.0.128-10.9.0.135")
	return c
}

// testName is the uplink's.
func testName() string { return cmp.Or(os.Getenv("GRESNET_BED_NAME"), "uplink0") }

// uplinkBed is testBed with a management network: mgmt0, behind which another namespace is a host with a
// listener. The node does not forward.
func uplinkBed(t *testing.T, kind string) (node, far *netnstest.NS, state string) {
	node, state = apartBed(t)
	far = netnstest.New(t)
	node.IP("link add mgmt0 type veth peer name far1")
	node.IP("link set far1 netns " + far.Path)
	node.Run(`sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.mgmt0.disable_ipv6=1; ip link set mgmt0 up; ip addr add 10.9.0.2/24 dev mgmt0`)
	far.Run(`ip link set far1 up; ip addr add 10.9.0.1/24 dev far1`)
	node.Run("until ip link show mgmt0 | grep -q 'state UP'; do sleep 0.02; done")
	t.Setenv("GRESNET_BED_UPLINK", kind)
	t.Setenv("GRESNET_BED_PINS", cgrouptest.Pins(t))
	return node, far, state
}

// uplinkKinds runs a test for each kind.
func uplinkKinds(t *testing.T, each func(t *testing.T, kind string)) {
	for _, kind := range []string{config.UplinkMacvlan, config.UplinkAuto} {
		t.Run(kind, func(t *testing.T) { each(t, kind) })
	}
}

// inLease runs a command in the namespace of the lease.
func inLease(node *netnstest.NS, state, command string) string {
	return node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns sh -ec '%s'", state, testJob, command))
}

func TestAnUplinkReachesTheManagementNetworkAndNothingIsLeftOfIt(t *testing.T) {
	netnstest.Slow(t)
	uplinkKinds(t, func(t *testing.T, kind string) {
		node, far, state := uplinkBed(t, kind)
		before := testPicture(node)
		testRun(t, node, state, "prolog", never)
		address := "10.9.0.128"
		seen, on, bare := address, "uplink0", "lo"
		if kind == config.UplinkAuto {
			// An address that is another job's on each node is on no interface that leads there.
			address, seen, on, bare = "10.9.0.2", "10.9.0.2", "lo", "uplink0"
		}
		far.Run(`python3 -c '
import os, socket
s = socket.create_server(("10.9.0.1", 7777))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(30)
	c, peer = s.accept()
	c.sendall(peer[0].encode())
'`)
		got := inLease(node, state, `ip -o -4 addr show dev `+on+`; ! ip -o -4 addr show dev `+bare+` | grep "scope global"; python3 -c "
import socket
print(socket.create_connection((\"10.9.0.1\", 7777), timeout=20).recv(99).decode())"; ip -6 addr show dev uplink0`)
		if !strings.Contains(got, " "+address+"/") && !strings.Contains(got, " "+address+" peer") || !strings.Contains(got, "\n"+seen+"\n") || strings.Contains(got, "inet6") {
			t.Errorf("the job has %q, and the server was to see %s", got, seen)
		}
		if text, err := os.ReadFile(fmt.Sprintf("%s/jobs/%d/resolv.conf", state, testJob)); err != nil || !strings.Contains(string(text), "nameserver 10.9.0.53\n") {
			t.Errorf("resolv.conf: %q, %v", text, err)
		}
		testRun(t, node, state, "epilog", never)
		testSame(t, node, state, before)
	})
}

func TestASocketThatIsBoundToTheUplinkReachesNoLoopbackOfTheNodesAndNothingByIPv6(t *testing.T) {
	netnstest.Slow(t)
	node, _, state := uplinkBed(t, config.UplinkAuto)
	// As kube-proxy and a node's sysctl files may have it.
	node.Run("ip addr add fd00:51::1/128 dev lo; sysctl -qw net.ipv4.conf.all.route_localnet=1")
	before := testPicture(node)
	testRun(t, node, state, "prolog", never)
	node.Run("sysctl -qw net.ipv6.conf.job4711.disable_ipv6=0")
	inLease(node, state, "sysctl -qw net.ipv6.conf.uplink0.disable_ipv6=0; ip -6 addr add fd00:51::2/64 dev uplink0 nodad")
	for address, reached := range map[string]bool{"10.9.0.2": true, "10.9.0.1": true, "127.0.0.1": false, "fd00:51::1": false} {
		// Who is reached refuses, since nobody listens. Who does not answer never will.
		patience := map[bool]string{true: "60", false: "4"}[reached]
		got := inLease(node, state, `python3 -c "
import errno, socket
s = socket.socket(socket.AF_INET6 if \":\" in \"`+address+`\" else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b\"uplink0\")
s.settimeout(`+patience+`)
print(errno.errorcode[s.connect_ex((\"`+address+`\", 1))])"`)
		if strings.TrimSpace(got) == "ECONNREFUSED" != reached {
			t.Errorf("%s is reached ought to be %t: %s", address, reached, got)
		}
	}
	// No answer comes from a loopback, but a datagram needs none: first one there, then one to the node.
	node.Run(`python3 -c '
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 777))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	open("` + state + `/first.new", "wb").write(s.recv(99))
	os.rename("` + state + `/first.new", "` + state + `/first")
'`)
	inLease(node, state, `python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b\"uplink0\")
for address in (\"127.0.0.1\", \"10.9.0.2\"):
	s.sendto(address.encode(), (address, 777))"`)
	if got := node.Run("until cat " + state + "/first 2>/dev/null; do sleep 0.02; done; rm " + state + "/first"); got != "10.9.0.2" {
		t.Errorf("the first datagram that arrives went to %s", got)
	}
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

func TestAJobThatTampersWithItsUplinkKeepsNoEpilogFromItsEnd(t *testing.T) {
	netnstest.Slow(t)
	uplinkKinds(t, func(t *testing.T, kind string) {
		for _, tamper := range []string{
			"ip link set uplink0 down; ip link set uplink0 name lost; ip link add uplink0 type veth",
			"ip link del uplink0",
			"ip link set uplink0 down; ip link set uplink0 address 02:00:00:00:00:99 || true",
			"ip addr flush dev uplink0; ip link add uplink1 type veth",
			"ip link set uplink0 netns NODE",
		} {
			node, _, state := uplinkBed(t, kind)
			before := testPicture(node)
			testRun(t, node, state, "prolog", never)
			inLease(node, state, strings.Replace(tamper, "NODE", node.Path, 1))
			testRun(t, node, state, "epilog", never)
			testSame(t, node, state, before)
		}
	})
}

func TestALeaseWithAnUplinkThatIsKilledBeforeOrAfterAnyStepIsUndone(t *testing.T) {
	netnstest.Slow(t)
	uplinkKinds(t, func(t *testing.T, kind string) {
		node, _, state := uplinkBed(t, kind)
		before := testPicture(node)
		whole.killAnywhere(t, node, state, 9, func() { testSame(t, node, state, before) })
	})
}

func TestAnUplinkOfALeaseThatSomebodyRemovedIsFound(t *testing.T) {
	node, _, state := uplinkBed(t, config.UplinkAuto)
	testRun(t, node, state, "prolog", never)
	inLease(node, state, "ip link set hca0 netns "+node.Path)
	node.Run(fmt.Sprintf("umount -l %s/jobs/%d/netns; rm -r %s/jobs/%d", state, testJob, state, testJob))
	ends := func() string {
		return strings.TrimSpace(node.Run("ip -o link show type veth | grep -c job4711 || true"))
	}
	if got := ends(); got != "0" && got != "1" {
		t.Fatalf("the node has %s ends of the uplink", got)
	}
	// Nothing is left in the lease to say that there was one: the table does.
	err := node.Do(func() error {
		local := testNode(state, never)
		now, err := local.Table().Read()
		if err != nil || len(now.Uplinks) != 1 {
			t.Errorf("uplinks %v, %v", now.Uplinks, err)
		}
		return testRemoved(t, local)
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := table.Folder(state).Read()
	if err != nil || len(now.Uplinks) > 0 || ends() != "0" {
		t.Errorf("%s ends and the addresses %v are left, %v", ends(), now.Uplinks, err)
	}
}

func TestAnUplinkThatIsAnotherJobsByNowIsLeftAlone(t *testing.T) {
	node, _, state := uplinkBed(t, config.UplinkAuto)
	testRun(t, node, state, "prolog", never)
	file := table.Folder(state)
	err := file.Update(t.Context(), func(t *table.Table) error {
		t.Uplinks[0].Job = 99
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Held, so that the interface does not go with the namespace.
	held, err := netns.Open(fmt.Sprintf("%s/jobs/%d/netns", state, testJob))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	testRun(t, node, state, "epilog", never)
	left, err := file.Read()
	if err != nil || len(left.Uplinks) != 1 {
		t.Errorf("uplinks %v, %v", left.Uplinks, err)
	}
	node.Run("ip link show dev job4711")
}

func TestAnUplinkHasTheNameThatTheSiteGivesItAndGoesAfterAnyKillOfAnEpilog(t *testing.T) {
	netnstest.Slow(t)
	uplinkKinds(t, func(t *testing.T, kind string) {
		node, _, state := uplinkBed(t, kind)
		t.Setenv("GRESNET_BED_NAME", "eth0")
		before := testPicture(node)
		killEach(t, "the epilog", 1, func(look int) bool {
			testRun(t, node, state, "prolog", never)
			if got := inLease(node, state, "ip -o link show dev eth0"); !strings.Contains(got, " eth0@") {
				t.Errorf("the job has %q", got)
			}
			killed := testRun(t, node, state, "epilog", look)
			testRun(t, node, state, "epilog", never)
			testSame(t, node, state, before)
			return killed
		})
	})
}

func TestAnUplinkOfTheNameOfAnHCAsInterfaceIsRefusedBeforeAnythingMoves(t *testing.T) {
	netnstest.Slow(t)
	for _, name := range []string{"hca1", "rail0"} { // a name and an alternative one
		why := "uplink: its name " + name + " is that of an HCA's interface, which jobs have, too"
		t.Run(name, func(t *testing.T) {
			node, _, state := uplinkBed(t, config.UplinkMacvlan)
			t.Setenv("GRESNET_BED_NAME", name)
			before := testPicture(node)
			if out, err := whole.command(node, state, "prolog", never).CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
				t.Errorf("prolog: %v: %s", err, out)
			}
			testRun(t, node, state, "epilog", never)
			testSame(t, node, state, before)
		})
		t.Run(name+", which a job can do without", func(t *testing.T) {
			node, _, state := uplinkBed(t, config.UplinkAuto)
			t.Setenv("GRESNET_BED_NAME", name)
			t.Setenv("GRESNET_BED_NOTICES", "1")
			before := testPicture(node)
			if out, err := whole.command(node, state, "prolog", never).CombinedOutput(); err != nil || !strings.Contains(string(out), "no way out: "+why) {
				t.Errorf("prolog: %v: %s", err, out)
			}
			if got := inLease(node, state, "ip -o link show type veth"); strings.Contains(got, "@if107") {
				t.Errorf("the job has %s", got)
			}
			testRun(t, node, state, "epilog", never)
			testSame(t, node, state, before)
		})
	}
}

// testRemoved ends what a job has whose lease somebody removed, and expects that its HCAs are kept
// from later jobs.
func testRemoved(t *testing.T, local *Host) error {
	if err := local.Restore(t.Context(), testJob, nil); !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("the HCAs are not kept: %w", err)
	}
	return nil
}
