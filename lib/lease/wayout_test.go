package lease

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/state/table"
	"gresnet/test/await"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
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
	b.first, b.second = testLease{testJob, "hca0"}, testLease{testJob + 1, "hca1"}
	return b
}

type wayOutBed struct {
	node, far, stor *netnstest.NS
	state           string
	first, second   testLease
}

// in runs a command in the namespace of a lease.
func (b wayOutBed) in(l testLease, command string) string {
	return b.node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns sh -ec '%s'", b.state, l.job, command))
}

// judged tells on which interfaces of the node programs judge packets, and which take packets from the node's own address.
func (b wayOutBed) judged() string {
	return strings.Join(strings.Fields(b.node.Run(`for i in lo mgmt0 stor0; do [ -d /sys/class/net/$i ] || continue
		{ tc filter show dev $i ingress; tc filter show dev $i egress; } 2>/dev/null | grep -q gresnet && echo $i; done
		cat /proc/sys/net/ipv4/conf/mgmt0/accept_local /proc/sys/net/ipv4/ip_forward`)), " ")
}

// What judged says while a job has a way out, and else.
const (
	judging = "lo mgmt0 stor0 1 0"
	idle    = "0 0"
)

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
	before := testPicture(b.node)
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
	check("a job at a port of its node that is no service's", b.in(b.second, seenAs("10.9.0.2", brief)), "ECONNREFUSED")
	check("a job at its node's other address", b.in(b.second, seenAs("10.7.0.2", brief)), "silence")
	check("a job at itself", b.in(b.first, seenAs("10.9.0.2", patient)), "10.9.0.2")
	check("a host of the management network at a port that the job and the node have", b.far.Run("sh -ec '"+seenAs("10.9.0.2", patient)+"'"), "10.9.0.1")
	b.first.run(t, b.node, b.state, "epilog", never)
	check("a job when another has ended", b.in(b.second, seenAs("10.9.0.1", patient)), "10.9.0.2")
	b.second.run(t, b.node, b.state, "epilog", never)
	testSame(t, b.node, b.state, before)
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

func TestTheNodeIsNoRouterForItsJobs(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := testPicture(b.node)
	serve(t, b.stor.Path, "10.7.0.1")
	testRun(t, b.node, b.state, "prolog", never)
	if got := strings.TrimSpace(b.far.Run("sh -ec '" + seenAs("10.7.0.1", brief) + "'")); got != "silence" {
		t.Errorf("a neighbor goes through the node: %s", got)
	}
	testRun(t, b.node, b.state, "epilog", never)
	testSame(t, b.node, b.state, before)
}

func TestTheLastWayOutEndsTheProgramsThatJudge(t *testing.T) {
	b := wayBed(t)
	before := testPicture(b.node)
	b.first.run(t, b.node, b.state, "prolog", never)
	b.second.run(t, b.node, b.state, "prolog", never)
	if got := b.judged(); got != judging {
		t.Errorf("with two jobs: %s", got)
	}
	b.first.run(t, b.node, b.state, "epilog", never)
	if got := b.judged(); got != judging {
		t.Errorf("with one job: %s", got)
	}
	b.second.run(t, b.node, b.state, "epilog", never)
	if got := b.judged(); got != idle {
		t.Errorf("without jobs: %s", got)
	}
	testSame(t, b.node, b.state, before)
}

// killAfter runs a program and kills it after a time, unless it ends before.
func (l testLease) killAfter(t *testing.T, b wayOutBed, program string, after time.Duration) (took time.Duration, killed bool) {
	t.Helper()
	cmd := l.command(b.node, b.state, program, never)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if timer.Stop() && err != nil {
		t.Fatalf("%s: %v: %s", program, err, out.String())
	}
	return time.Since(begun), err != nil
}

// heldBy returns the numbers of veths that the node's maps have, of jobs, blocks and aliases.
func (b wayOutBed) heldBy(t *testing.T) (all []uint32) {
	t.Helper()
	n := ports.In(testPins(b.state))
	read := func(name string, f func(bpf.Map) error) {
		t.Helper()
		m, err := bpf.OpenMap(n.Pins + "/" + name)
		if err == nil {
			defer m.Close()
			err = f(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("jobs", func(m bpf.Map) (err error) {
		all, err = bpf.Keys[uint32](m)
		return err
	})
	read("aliases", func(m bpf.Map) error {
		list, err := bpf.Keys[[2]uint32](m)
		for _, k := range list {
			all = append(all, k[0])
		}
		return err
	})
	read("blocks", func(m bpf.Map) error {
		for at := range uint32(1 << 16 / ports.Grain) {
			veth, err := bpf.Get[uint32, uint32](m, at)
			if err != nil {
				return err
			}
			if veth > 0 {
				all = append(all, veth)
			}
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}

func TestAWayOutThatIsKilledAtAnyTimeIsLedToByNothing(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := testPicture(b.node)
	want := map[bool]int{false: 20, true: 200}[os.Getenv("GRESNET_TEST") == "long"]
	other := uint32(0) // the veth of another job
	whole := map[string]time.Duration{}
	for kills, n := 0, 0; kills < want; n++ {
		if n%8 == 0 { // with the other job, and then without
			b.second.run(t, b.node, b.state, "prolog", never)
			other = b.heldBy(t)[0]
		}
		program := []string{"prolog", "epilog"}[n%2]
		if program == "epilog" {
			b.first.run(t, b.node, b.state, "prolog", never)
		}
		if whole[program] == 0 {
			whole[program] = time.Minute
		}
		took, killed := b.first.killAfter(t, b, program, time.Duration(seed.IntN(int(whole[program]))))
		if !killed {
			whole[program] = took
		} else {
			kills++
		}
		if n%8 == 3 { // as after a crash
			b.first.run(t, b.node, b.state, "boot", never)
			other = 0
		} else {
			b.first.run(t, b.node, b.state, "epilog", never)
		}
		if other > 0 {
			if got := b.heldBy(t); !slices.Equal(got, []uint32{other}) {
				t.Fatalf("a %s was killed: the maps have the jobs with interfaces %v, and only %d is left", program, got, other)
			}
			if got := b.judged(); got != judging {
				t.Fatalf("a %s was killed: %s", program, got)
			}
		} else {
			testSame(t, b.node, b.state, before)
		}
		port := ports.First // of the job's block
		if other > 0 {
			port += 1024
		}
		err := b.far.Do(func() error {
			_, err := net.DialTimeout("tcp4", fmt.Sprintf("10.9.0.2:%d", port), await.Slow(time.Minute))
			return err
		})
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatalf("a %s was killed: who calls port %d, which was the job's: %v", program, port, err)
		}
	}
	b.second.run(t, b.node, b.state, "boot", never)
	testSame(t, b.node, b.state, before)
}

func TestOneOfTwoJobsWithAWayOutThatIsKilledLeavesTheOthers(t *testing.T) {
	netnstest.Slow(t)
	b := wayBed(t)
	before := testPicture(b.node)
	for _, program := range []string{"prolog", "epilog"} {
		killEach(t, "the "+program, 1, func(look int) bool {
			b.first.run(t, b.node, b.state, "prolog", never)
			if program == "epilog" {
				b.second.run(t, b.node, b.state, "prolog", never)
			}
			killed := b.second.run(t, b.node, b.state, program, look)
			if got := b.judged(); got != judging {
				t.Fatalf("%s, killed at look %d: %s", program, look, got)
			}
			// The one that is killed ends first, and then last.
			order := []testLease{b.second, b.first}
			if look%2 == 0 {
				order = []testLease{b.first, b.second}
			}
			for _, l := range order {
				l.run(t, b.node, b.state, "epilog", never)
			}
			testSame(t, b.node, b.state, before)
			return killed
		})
	}
}

func TestWhatTheSiteHasOnAnInterfaceIsLeftAlone(t *testing.T) {
	netnstest.Slow(t)
	for _, had := range []string{
		"tc qdisc add dev mgmt0 clsact", "sysctl -qw net.ipv4.conf.mgmt0.accept_local=1", "sysctl -qw net.ipv4.ip_forward=1",
		"tc qdisc add dev stor0 clsact; tc filter add dev stor0 ingress prio 7 bpf bytecode '1,6 0 0 4294967295,' da",
	} {
		t.Run(had, func(t *testing.T) {
			b := wayBed(t)
			b.node.Run(had)
			before := testPicture(b.node)
			testRun(t, b.node, b.state, "prolog", never)
			testRun(t, b.node, b.state, "epilog", never)
			testSame(t, b.node, b.state, before)
		})
	}
}

func TestTheNextPrologAttachesWhatSomebodyHasDetached(t *testing.T) {
	b := wayBed(t)
	before := testPicture(b.node)
	b.first.run(t, b.node, b.state, "prolog", never)
	b.node.Run("tc qdisc del dev mgmt0 clsact; sysctl -qw net.ipv4.conf.mgmt0.accept_local=0")
	b.second.run(t, b.node, b.state, "prolog", never)
	if got := b.judged(); got != judging {
		t.Errorf("after the next prolog: %s", got)
	}
	b.first.run(t, b.node, b.state, "epilog", never)
	b.node.Run("tc qdisc del dev mgmt0 clsact")
	b.second.run(t, b.node, b.state, "epilog", never)
	testSame(t, b.node, b.state, before)
}

func TestAnInterfaceThatIsMadeAgainIsNamedUntilTheNextPrologAttachesThePrograms(t *testing.T) {
	b := wayBed(t)
	serve(t, b.far.Path, "10.9.0.1")
	unjudged := func() (all []int) {
		t.Helper()
		err := b.node.Do(func() (err error) {
			all, err = ports.In(testPins(b.state)).Unjudged()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	b.first.run(t, b.node, b.state, "prolog", never)
	if got := unjudged(); len(got) > 0 {
		t.Errorf("with a job: %v", got)
	}
	old := strings.TrimSpace(b.node.Run("cat /sys/class/net/mgmt0/ifindex"))
	b.node.IP("link del mgmt0")
	b.node.IP("link add mgmt0 type veth peer name far1")
	b.node.IP("link set far1 netns " + b.far.Path)
	b.far.Run("ip link set far1 up; ip addr add 10.9.0.1/24 dev far1; ip route add 10.7.0.0/24 via 10.9.0.2; ip route add 198.19.0.0/16 via 10.9.0.2")
	b.node.Run("sysctl -qw net.ipv6.conf.mgmt0.disable_ipv6=1; ip link set mgmt0 up; ip addr add 10.9.0.2/24 dev mgmt0; ip route add default via 10.9.0.1; until ip link show mgmt0 | grep -q 'state UP'; do sleep 0.02; done")
	if got := fmt.Sprint(unjudged()); got != "["+old+"]" {
		t.Errorf("with an interface that was made again: %s, and it was %s", got, old)
	}
	b.node.Run("tc qdisc del dev stor0 clsact")
	if got := unjudged(); len(got) != 2 {
		t.Errorf("with another one that has lost its filters: %v", got)
	}
	b.second.run(t, b.node, b.state, "prolog", never)
	if got := unjudged(); len(got) > 0 || !strings.HasPrefix(b.judged(), "lo mgmt0 stor0 ") {
		t.Errorf("after the next prolog: %v, %s", got, b.judged())
	}
	for _, l := range []testLease{b.first, b.second} {
		if got := strings.TrimSpace(b.in(l, seenAs("10.9.0.1", patient))); got != "10.9.0.2" {
			t.Errorf("after the next prolog, job %d calls: %s", l.job, got)
		}
		l.run(t, b.node, b.state, "epilog", never)
	}
	// The new one has a higher index, so the second job was known by the other's address.
	if got := b.judged(); got != idle || strings.TrimSpace(b.node.Run("cat /proc/sys/net/ipv4/conf/stor0/accept_local")) != "0" {
		t.Errorf("without jobs: %s, or stor0 takes packets from the node's own address", got)
	}
}

func TestAWayOutOfALeaseThatSomebodyRemovedIsEnded(t *testing.T) {
	b := wayBed(t)
	testRun(t, b.node, b.state, "prolog", never)
	b.node.Run(fmt.Sprintf("umount -l %s/jobs/%d/netns; rm -r %s/jobs/%d", b.state, testJob, b.state, testJob))
	err := b.node.Do(func() error {
		return testRemoved(t, testNode(b.state, never))
	})
	if got := b.judged(); err != nil || got != idle {
		t.Errorf("err %v; %s", err, got)
	}
}

func TestAnInterfaceThatIsGoneNeedsNothing(t *testing.T) {
	b := wayBed(t)
	testRun(t, b.node, b.state, "prolog", never)
	b.node.IP("link del stor0")
	testRun(t, b.node, b.state, "epilog", never)
	now, err := table.Folder(b.state).Read()
	if err != nil || len(now.Hooked) > 0 {
		t.Errorf("judged %v, %v", now.Hooked, err)
	}
}

func TestAJobWithoutAWayOutHasALeaseNevertheless(t *testing.T) {
	netnstest.Slow(t)
	t.Setenv("GRESNET_BED_NOTICES", "1")
	for _, c := range []struct{ name, node, within, notice string }{
		{"no network", "ip link set mgmt0 down; ip link set stor0 down", "", "no way out: uplink: the node has no way out that its jobs could take"},
		{"a sysctl that nobody can write", "", "cd /proc/sys/net/ipv4/conf/mgmt0; mount --bind . . ; mount -o bind,remount,ro .", "no way out: open /proc/sys/net/ipv4/conf/mgmt0/accept_local: read-only file system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wayBed(t)
			b.node.Run(":; " + c.node)
			before := testPicture(b.node)
			both := whole.command(b.node, b.state, "prolog", never)
			script := fmt.Sprintf(`(%s); "$@"; cd %s; test -e jobs/%d/env; ! nsenter --net=jobs/%d/netns ip link show dev uplink0 2>/dev/null
test -z "$(ls uplinks hooked | grep -v :)"; GRESNET_BED=epilog "$@"`, cmp.Or(c.within, ":"), b.state, testJob, testJob)
			both.Args = slices.Insert(both.Args, 2, "unshare", "-m", "sh", "-ec", script, "sh")
			if out, err := both.CombinedOutput(); err != nil || !strings.Contains(string(out), c.notice) {
				t.Errorf("prolog and epilog: %v: %s", err, out)
			}
			testSame(t, b.node, b.state, before)
		})
	}
}
