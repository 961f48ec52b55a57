package nft_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"

	"gresnet/lib/base/account"
	"gresnet/lib/kernel/nft"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// tables returns the names of the tables that are there.
func tables(t *testing.T) (names []string) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		names = append(names, table.Name)
	}
	return names
}

func TestTablesAreRemovedTogetherWhicheverOfThemThereAre(t *testing.T) {
	err := netnstest.New(t).Do(func() error {
		job := nft.Job{Address: netip.MustParseAddr("198.19.0.1"), Index: 1<<30 | 1, Bit: 1 << 30, UID: 1000, Most: 9, Users: people()}
		for range 2 { // the second time they are there
			for _, err := range []error{nft.LeadOut("way", job), nft.Guard("guard2", 2, 1<<30), nft.Guard("guard3", 3, 1<<30)} {
				if err != nil {
					return err
				}
			}
		}
		for _, c := range []struct {
			remove []string
			left   string
		}{
			{nil, "[way guard2 guard3]"}, {[]string{"none"}, "[way guard2 guard3]"}, {[]string{"none", "guard2", "way"}, "[guard3]"}, {[]string{"guard2", "guard3"}, "[]"},
		} {
			if err := nft.Remove(c.remove...); err != nil {
				return err
			}
			if got := fmt.Sprint(tables(t)); got != c.left {
				t.Errorf("%v removed, %s are left, want %s", c.remove, got, c.left)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAJobHasSoManyConnectionsAtOnceAndNoMore(t *testing.T) {
	netnstest.Slow(t)
	node, server, inside := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	node.IP("link add in0 type veth peer name up0 netns " + inside.Path)
	node.IP("link add out0 type veth peer name net0 netns " + server.Path)
	node.Run("sysctl -qw net.ipv4.ip_forward=1; ip link set in0 up; ip link set out0 up; ip addr add 10.8.0.1/24 dev in0; ip addr add 10.9.0.2/24 dev out0")
	inside.Run("ip link set up0 up; ip addr add 10.8.0.2/24 dev up0; ip route add default via 10.8.0.1")
	server.Run("ip link set net0 up; ip addr add 10.9.0.1/24 dev net0")
	standin.Start(t, exec.Command("nsenter", "--net="+server.Path, "python3", "-c", `
import socket, sys
s = socket.create_server(("10.9.0.1", 7777), backlog=64)
print("listens", flush=True)
sys.stdin.read()`))
	index := strings.TrimSpace(node.Run("cat /sys/class/net/in0/ifindex"))
	err := node.Do(func() error {
		n, err := strconv.ParseUint(index, 10, 32)
		if err != nil {
			return err
		}
		return nft.LeadOut("way", nft.Job{Address: netip.MustParseAddr("10.8.0.2"), Index: uint32(n), Bit: 1 << 30, Most: 3, Users: people()})
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is closed leaves room.
	got := inside.Run(`python3 -c '
import socket
def connect(patience):
	try:
		return socket.create_connection(("10.9.0.1", 7777), timeout=patience)
	except TimeoutError:
		return None
held = [connect(20), connect(20), connect(20), connect(2)]
print([c is not None for c in held])
held[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
held[0].close()
print(connect(20) is not None)'`)
	if want := "[True, True, True, False]\nTrue\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// people returns users who may begin nine connections each.
func people() nft.Users {
	return nft.Users{Most: 9, Users: account.Users{
		Own:    []account.Range{{First: 1000, Last: 61183}, {First: 65535, Last: 99999}},
		Subuid: []account.Range{{First: 100000, Last: 199999}, {First: 1 << 31, Last: 1<<32 - 2}},
	}}
}

// leadOut makes the table of a job whose uplink is not there.
func leadOut(t *testing.T, ns *netnstest.NS, uid uint32, users nft.Users) {
	t.Helper()
	err := ns.Do(func() error {
		return nft.LeadOut("way", nft.Job{Address: netip.MustParseAddr("198.19.0.1"), Index: 1<<30 | 1, Bit: 1 << 30, UID: uid, Most: 1, Users: users})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoUserOfTheNodeFillsTheListOfConnections(t *testing.T) {
	ns := netnstest.New(t)
	ns.Run("ip link set lo up")
	leadOut(t, ns, 62000, people())
	for _, c := range []struct {
		who, uid string
		want     int
	}{
		{"a user", "1001", 9}, {"a user, again", "1001", 0}, {"another user", "1002", 9}, {"a user of a directory", "70000", 9},
		{"root", "0", 20}, {"the resolver", "101", 20}, {"nobody", "65534", 20}, {"a service of systemd's", "62001", 20},
		{"the job's user, whose uid is a service's", "62000", 9},
		{"a subuid", "100000", 9}, {"another", "199999", 0}, {"one that FreeIPA gave", "4000000000", 0},
	} {
		// A UDP socket is told at once that its packet was dropped.
		got := ns.Run("setpriv --reuid " + c.uid + ` --clear-groups bash -c 'for port in {5001..5020}; do echo >/dev/udp/127.0.0.1/$port && echo begun; done 2>/dev/null; true'`)
		if n := strings.Count(got, "begun"); n != c.want {
			t.Errorf("%s (%s) began %d connections, wanted %d", c.who, c.uid, n, c.want)
		}
	}
}

// The kernel keeps a connection that has ended on its list for two minutes, or ten seconds, and ct count does not count it.
func TestNoUserOfTheNodeFillsTheListOfConnectionsWithShortOnes(t *testing.T) {
	netnstest.Slow(t)
	const most, tries = 200, 2000
	for _, ends := range []string{"closes", "resets"} {
		ns := netnstest.New(t)
		ns.Run("ip link set lo up")
		users := people()
		users.Most = most
		leadOut(t, ns, 1000, users)
		got := ns.Run(`python3 -c '
import os, resource, socket, sys
resets = sys.argv[1] == "resets"
os.setuid(1001)
server = socket.create_server(("", 7000), backlog=64)
begun = 0
for n in range(int(sys.argv[2])):
	s = socket.socket()
	s.settimeout(0.005)
	try:
		s.connect((f"127.1.{n >> 8}.{n & 255}", 7000))
	except TimeoutError:
		continue
	begun += 1
	if resets:
		s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
	s.close()
	server.accept()[0].close()
print(begun)
' ` + fmt.Sprint(ends, " ", tries))
		var begun, listed int
		if _, err := fmt.Sscan(got, &begun); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if err := ns.Do(func() error { listed = nft.Listed("127.0.0.1"); return nil }); err != nil {
			t.Fatal(err)
		}
		if begun < most || listed < 0 || listed > 2*most {
			t.Errorf("a user who %s %d connections has %d on the list", ends, begun, listed)
		}
	}
}

// A resolver asks its server by a new port for each question, so that nobody forges the answer.
func TestAUsersQuestionsKeepTheResolverFromNobodyElses(t *testing.T) {
	ns := netnstest.New(t)
	ns.Run("ip link set lo up")
	leadOut(t, ns, 1000, people())
	got := ns.Run(`python3 -c '
import os, socket
UDP = (socket.AF_INET, socket.SOCK_DGRAM)
resolver, server = socket.socket(*UDP), ("127.0.0.1", 5353)
resolver.bind(("127.0.0.53", 53))
resolver.settimeout(30)
def ask(user, times):
	if os.fork() == 0:
		os.setuid(user)
		s = socket.socket(*UDP)
		for _ in range(times):
			s.sendto(b"?", ("127.0.0.53", 53))
		os._exit(0)
	os.setresuid(101, 101, 0)
	for _ in range(times):
		question, _ = resolver.recvfrom(9)
		socket.socket(*UDP).sendto(question, server)
	os.setresuid(0, 0, 0)
ask(1001, 30)
ask(1002, 1)
print("answered")' 2>&1 || true`)
	if got != "answered\n" {
		t.Error(got)
	}
}

// callers returns the elements of the set of those who may call a job, of a node and what a cluster has besides.
func callers(t *testing.T, also [][2]netip.Addr) []string {
	t.Helper()
	node := netip.MustParseAddr("10.9.0.1")
	i := &nft.Identity{Node: node, Gateway: netip.MustParseAddr("198.19.0.1"), Nodes: []netip.Addr{node},
		Calls: &nft.Calls{Leads: []int{2}, From: []netip.Addr{netip.MustParseAddr("10.9.0.99")}, Also: also}}
	ns := netnstest.New(t)
	err := ns.Do(func() error {
		return nft.LeadOut("way", nft.Job{Address: netip.MustParseAddr("198.19.0.1"), Index: 1<<30 | 1, Bit: 1 << 30, UID: 1000, Most: 9, Users: people(), Ports: [2]int{16384, 18431}, Identity: i})
	})
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(ns.Run("nft list set ip way callers"), "elements = {")
	list, _, _ = strings.Cut(list, "}")
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
}

func TestAllNodesOfAClusterMayCallAJob(t *testing.T) {
	var all [][2]netip.Addr
	for n := range 65536 {
		a := netip.AddrFrom4([4]byte{10, 8, byte(n >> 8), byte(n)})
		all = append(all, [2]netip.Addr{a, a})
	}
	if got := fmt.Sprint(callers(t, all)); got != "[10.8.0.0/16 10.9.0.1 10.9.0.99]" {
		t.Errorf("%s may call", got)
	}
}

func TestRangesOfAClustersAddressesMayTouchAndOverlap(t *testing.T) {
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 8, 0, last}) }
	all := [][2]netip.Addr{{at(8), at(15)}, {at(0), at(3)}, {at(4), at(7)}, {at(2), at(9)}, {at(32), at(63)}, {at(40), at(41)}}
	if got := fmt.Sprint(callers(t, all)); got != "[10.8.0.0/28 10.8.0.32/27 10.9.0.1 10.9.0.99]" {
		t.Errorf("%s may call", got)
	}
}

func TestNodesOfAClusterWhoseAddressesAreNoRangesDoNotKeepOthersFromCallingAJob(t *testing.T) {
	var all [][2]netip.Addr
	for n := range 65536 {
		a := netip.AddrFrom4([4]byte{10, byte(n >> 15), byte(n >> 7), byte(n << 1)})
		all = append(all, [2]netip.Addr{a, a})
	}
	if got := fmt.Sprint(callers(t, all)); got != "[10.9.0.1 10.9.0.99]" {
		t.Errorf("%s may call", got)
	}
	if got := len(callers(t, all[:500])); got != 502 {
		t.Errorf("%d may call", got)
	}
}
