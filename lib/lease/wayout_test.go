package lease

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// wayBed is uplinkBed for automatic uplinks with a storage network behind the node, which has
// the one host stor, and one job for each HCA.
func wayBed(t *testing.T) (b wayOutBed) {
	b.node, b.far, b.state = uplinkBed(t, config.UplinkAuto)
	b.stor = netnstest.New(t)
	b.node.IP("link add stor0 type veth peer name store")
	b.node.IP("link set store netns " + b.stor.Path)
	b.node.Run("ip link set stor0 up; ip addr add 10.7.0.2/24 dev stor0; ip route add default via 10.9.0.1")
	b.stor.Run("ip link set store up; ip addr add 10.7.0.1/24 dev store; ip route add default via 10.7.0.2")
	// The kernel sees the carrier up to a second later, and then adds an address.
	b.node.Run(`until ip -o link show stor0 | grep -q "state UP" && ip -o -6 addr show dev stor0 scope link | grep inet6 | grep -qv tentative; do sleep 0.01; done`)
	// Whoever wants to go through the node.
	b.far.Run("ip route add 10.7.0.0/24 via 10.9.0.2; ip route add 198.19.0.0/16 via 10.9.0.2")
	b.first, b.second = lawLease{lawJob, "hca0"}, lawLease{lawJob + 1, "hca1"}
	return b
}

type wayOutBed struct {
	node, far, stor *netnstest.NS
	state           string
	first, second   lawLease
}

// in runs a command in the namespace of a lease.
func (b wayOutBed) in(l lawLease, command string) string {
	return b.node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns sh -ec '%s'", b.state, l.job, command))
}

func (b wayOutBed) forwards() string {
	return strings.Join(strings.Fields(b.node.Run("cat /proc/sys/net/ipv4/conf/mgmt0/forwarding /proc/sys/net/ipv4/conf/stor0/forwarding /proc/sys/net/ipv4/ip_forward")), "")
}

// serve is a server that answers each who comes with their address until its namespace's test ends.
func serve(t *testing.T, path, address string) {
	t.Helper()
	server := exec.Command("nsenter", "--net="+path, "python3", "-c", `
import socket, sys
s = socket.create_server((sys.argv[1], 7777))
print("ready", flush=True)
while True:
	c, peer = s.accept()
	c.sendall(peer[0].encode())
	c.close()`, address)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		t.Fatalf("the server on %s: %v", address, err)
	}
}

// seenAs is the client's program: as whom a server sees it, or why it does not.
func seenAs(address string, patience int) string {
	return fmt.Sprintf(`python3 -c "
import errno, socket
try:
	print(socket.create_connection((\"%s\", 7777), timeout=%d).recv(99).decode())
except TimeoutError:
	print(\"silence\")
except OSError as e:
	print(errno.errorcode[e.errno])"`, address, patience)
}

// Who does not answer never will; who does, has time.
const (
	patient = 30
	brief   = 2
)

func TestAJobReachesWhatItsNodeReachesAndNobodyReachesTheJob(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := lawPicture(b.node)
	b.first.run(t, b.node, b.state, "prolog", never)
	b.second.run(t, b.node, b.state, "prolog", never)
	serve(t, b.far.Path, "10.9.0.1")
	serve(t, b.stor.Path, "10.7.0.1")
	serve(t, b.node.Path, "10.9.0.2")
	serve(t, fmt.Sprintf("%s/jobs/%d/netns", b.state, b.first.job), "0.0.0.0")
	check := func(who, got, want string) {
		t.Helper()
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, want %q", who, strings.TrimSpace(got), want)
		}
	}
	check("a job at a host of the management network", b.in(b.second, seenAs("10.9.0.1", patient)), "10.9.0.2")
	check("a job at a host of the storage network", b.in(b.second, seenAs("10.7.0.1", patient)), "10.7.0.2")
	check("a job at the node", b.in(b.second, seenAs("10.9.0.2", patient)), "198.19.0.2")
	check("a job at another job", b.in(b.second, seenAs("198.19.0.1", brief)), "silence")
	check("a job at another job, by a bound socket", b.in(b.second, `python3 -c "
import errno, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b\"uplink0\")
s.settimeout(2)
try:
	print(s.connect_ex((\"198.19.0.1\", 7777)))
except TimeoutError:
	print(\"silence\")" | sed s/11/silence/`), "silence")
	check("a host of the management network at a job", b.far.Run("sh -ec '"+seenAs("198.19.0.1", brief)+"'"), "silence")
	check("another user of the node at a job", b.node.Run("setpriv --reuid 1001 --clear-groups sh -ec '"+seenAs("198.19.0.1", brief)+"'"), "silence")
	check("root of the node at a job", b.node.Run("sh -ec '"+seenAs("198.19.0.1", brief)+"'"), "silence")
	check("the job's user on the node", b.node.Run("setpriv --reuid 1000 --clear-groups sh -ec '"+seenAs("198.19.0.1", patient)+"'"), "10.9.0.2")
	b.first.run(t, b.node, b.state, "epilog", never)
	check("a job when another has ended", b.in(b.second, seenAs("10.9.0.1", patient)), "10.9.0.2")
	b.second.run(t, b.node, b.state, "epilog", never)
	lawSame(t, b.node, b.state, before)
}

func TestAWideRouteOfAnHCADoesNotTakeAwayTheManagementNetwork(t *testing.T) {
	b := wayBed(t)
	b.node.Run("ip route add 10.0.0.0/8 via 10.0.0.1 dev hca0")
	b.first.run(t, b.node, b.state, "prolog", never)
	for to, by := range map[string]string{"10.9.0.1": "uplink0", "10.7.0.1": "uplink0", "10.200.0.1": "hca0"} {
		if got := b.in(b.first, "ip route get "+to); !strings.Contains(got, " dev "+by+" ") {
			t.Errorf("to %s: %s", to, got)
		}
	}
	b.first.run(t, b.node, b.state, "epilog", never)
}

func TestTheNodeIsARouterForItsJobsAlone(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := lawPicture(b.node)
	serve(t, b.stor.Path, "10.7.0.1")
	neighbor := func() string {
		return strings.TrimSpace(b.far.Run("sh -ec '" + seenAs("10.7.0.1", brief) + "'"))
	}
	lawRun(t, b.node, b.state, "prolog", never)
	if got := neighbor(); got != "silence" {
		t.Errorf("a neighbor goes through the node: %s", got)
	}
	b.node.Run(`nft 'table ip site { chain prerouting { type nat hook prerouting priority dstnat; ip daddr 10.9.0.2 tcp dport 7777 dnat to 10.7.0.1; }; }'`)
	if got := strings.TrimSpace(b.far.Run("sh -ec '" + seenAs("10.9.0.2", patient) + "'")); got != "10.9.0.1" {
		t.Errorf("a neighbor at a port that somebody on the node passes on: %s", got)
	}
	b.node.Run("nft delete table ip site")
	// What it is that keeps it from that.
	err := b.node.Do(func() error {
		now, err := table.Folder(b.state).Read()
		for _, f := range now.Forwarding {
			if err == nil {
				err = nft.Remove(fmt.Sprintf("gresnet_forward_%d", f.Index))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := neighbor(); got != "10.9.0.1" {
		t.Errorf("without the guard, the neighbor: %s", got)
	}
	lawRun(t, b.node, b.state, "epilog", never)
	lawSame(t, b.node, b.state, before)
}

func TestTheLastWayOutEndsTheForwarding(t *testing.T) {
	b := wayBed(t)
	before := lawPicture(b.node)
	b.first.run(t, b.node, b.state, "prolog", never)
	b.second.run(t, b.node, b.state, "prolog", never)
	if got := b.forwards(); got != "110" {
		t.Errorf("with two jobs, mgmt0, stor0, all: %s", got)
	}
	b.first.run(t, b.node, b.state, "epilog", never)
	if got := b.forwards(); got != "110" {
		t.Errorf("with one job, mgmt0, stor0, all: %s", got)
	}
	b.second.run(t, b.node, b.state, "epilog", never)
	lawSame(t, b.node, b.state, before)
}

func TestOneOfTwoJobsWithAWayOutThatIsKilledLeavesTheOthers(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := lawPicture(b.node)
	for _, program := range []string{"prolog", "epilog"} {
		killEach(t, "the "+program, 1, func(look int) bool {
			b.first.run(t, b.node, b.state, "prolog", never)
			if program == "epilog" {
				b.second.run(t, b.node, b.state, "prolog", never)
			}
			killed := b.second.run(t, b.node, b.state, program, look)
			if got := b.forwards(); got != "110" {
				t.Fatalf("%s, killed at look %d: mgmt0, stor0, all: %s", program, look, got)
			}
			// The one that is killed ends first, and then last.
			order := []lawLease{b.second, b.first}
			if look%2 == 0 {
				order = []lawLease{b.first, b.second}
			}
			for _, l := range order {
				l.run(t, b.node, b.state, "epilog", never)
			}
			lawSame(t, b.node, b.state, before)
			return killed
		})
	}
}

func TestForwardingThatTheSiteWantsIsLeftAlone(t *testing.T) {
	netnstest.Slow(t)
	for _, c := range []struct{ name, before, meanwhile, with, after string }{
		{"by one interface", "net.ipv4.conf.mgmt0.forwarding=1", "", "110", "100"},
		{"by all", "net.ipv4.ip_forward=1", "", "111", "111"},
		{"by all since", "net.ipv4.ip_forward=0", "net.ipv4.ip_forward=1", "111", "111"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wayBed(t)
			b.node.Run("sysctl -qw " + c.before)
			lawRun(t, b.node, b.state, "prolog", never)
			if c.meanwhile != "" {
				b.node.Run("sysctl -qw " + c.meanwhile)
			}
			if got := b.forwards(); got != c.with {
				t.Errorf("with a job, mgmt0, stor0, all: %s, want %s", got, c.with)
			}
			lawRun(t, b.node, b.state, "epilog", never)
			if got := b.forwards(); got != c.after {
				t.Errorf("afterwards, mgmt0, stor0, all: %s, want %s", got, c.after)
			}
			if left := firewall(b.node); len(left) > 0 {
				t.Errorf("nftables has %v", left)
			}
		})
	}
}

// The one who frees the last way out may be killed before the table says that all is put back.
func TestForwardingThatWasPutBackUnderATableThatDoesNotSaySoIsDoneAnew(t *testing.T) {
	b := wayBed(t)
	before := lawPicture(b.node)
	putBack := func() {
		t.Helper()
		now, err := table.Folder(b.state).Read()
		if err != nil || len(now.Forwarding) != 2 {
			t.Fatalf("forwarding %v, %v", now.Forwarding, err)
		}
		b.node.Run("sysctl -qw net.ipv4.conf.mgmt0.forwarding=0 net.ipv4.conf.stor0.forwarding=0")
		err = b.node.Do(func() error {
			return nft.Remove(fmt.Sprintf("gresnet_forward_%d", now.Forwarding[0].Index), fmt.Sprintf("gresnet_forward_%d", now.Forwarding[1].Index))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.first.run(t, b.node, b.state, "prolog", never)
	putBack()
	b.second.run(t, b.node, b.state, "prolog", never)
	if got := b.forwards(); got != "110" || strings.Count(strings.Join(firewall(b.node), "\n"), "table gresnet_forward") != 2 {
		t.Errorf("mgmt0, stor0, all: %s; nftables has %v", got, firewall(b.node))
	}
	b.first.run(t, b.node, b.state, "epilog", never)
	putBack()
	b.second.run(t, b.node, b.state, "epilog", never)
	lawSame(t, b.node, b.state, before)
}

func TestAWayOutOfALeaseThatSomebodyRemovedIsEnded(t *testing.T) {
	b := wayBed(t)
	lawRun(t, b.node, b.state, "prolog", never)
	b.node.Run(fmt.Sprintf("umount -l %s/jobs/%d/netns; rm -r %s/jobs/%d", b.state, lawJob, b.state, lawJob))
	err := b.node.Do(func() error {
		return lawRemoved(t, lawNode(b.state, never))
	})
	if got := b.forwards(); err != nil || got != "000" || len(firewall(b.node)) > 0 {
		t.Errorf("err %v; mgmt0, stor0, all: %s; nftables has %v", err, got, firewall(b.node))
	}
}

func TestAnInterfaceThatIsGoneNeedsNoForwardingToEnd(t *testing.T) {
	b := wayBed(t)
	lawRun(t, b.node, b.state, "prolog", never)
	b.node.IP("link del stor0")
	lawRun(t, b.node, b.state, "epilog", never)
	now, err := table.Folder(b.state).Read()
	if err != nil || len(now.Forwarding) > 0 || len(firewall(b.node)) > 0 {
		t.Errorf("forwarding %v, nftables %v, %v", now.Forwarding, firewall(b.node), err)
	}
}

func TestAJobWithoutAWayOutHasALeaseNevertheless(t *testing.T) {
	netnstest.Slow(t)
	t.Setenv("GRESNET_LAW_NOTICES", "1")
	for _, c := range []struct{ name, node, within, notice string }{
		{"no network", "ip link set mgmt0 down; ip link set stor0 down", "", "no way out: uplink: the node has no way out that its jobs could take"},
		{"a sysctl that nobody can write", "", "cd /proc/sys/net/ipv4/conf/mgmt0; mount --bind . . ; mount -o bind,remount,ro .", "no way out: set whether mgmt0 forwards: open /proc/sys/net/ipv4/conf/mgmt0/forwarding: read-only file system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wayBed(t)
			b.node.Run(":; " + c.node)
			before := lawPicture(b.node)
			both := whole.command(b.node, b.state, "prolog", never)
			script := fmt.Sprintf(`(%s); "$@"; cd %s; test -e jobs/%d/env; ! nsenter --net=jobs/%d/netns ip link show dev uplink0 2>/dev/null
test -z "$(ls uplinks forwarding | grep -v :)"; GRESNET_LAW=epilog "$@"`, cmp.Or(c.within, ":"), b.state, lawJob, lawJob)
			both.Args = slices.Insert(both.Args, 2, "unshare", "-m", "sh", "-ec", script, "sh")
			if out, err := both.CombinedOutput(); err != nil || !strings.Contains(string(out), c.notice) {
				t.Errorf("prolog and epilog: %v: %s", err, out)
			}
			lawSame(t, b.node, b.state, before)
		})
	}
}
