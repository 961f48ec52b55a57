package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/await"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
)

const testJob = 4711

// TestMain lets the test binary stand in for a prolog and an epilog that are
// killed: on this machine's kernel, without RDMA, of which a lease is then only
// the parts that have to do with a network interface.
func TestMain(m *testing.M) {
	if program := os.Getenv("GRESNET_BED"); program != "" {
		if err := testChild(program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testPins returns the folder of a node's pins. Such names have no dots.
func testPins(state string) string {
	return filepath.Join(os.Getenv("GRESNET_BED_PINS"), strings.NewReplacer("/", "-", ".", "-").Replace(state))
}

// testNode is a node whose clock kills the process when it is looked at for the
// n-th time: that is before and after each step. Nobody holds the node lock then.
func testNode(folder string, n int) *Host {
	seen := 0
	sys := fstest.MapFS{}
	if os.Getenv("GRESNET_BED_LOST") != "" {
		sys["class/infiniband_verbs"] = &fstest.MapFile{Mode: fs.ModeDir} // no driver has anything
	}
	local := On(&host.Host{
		State: state.Dir(folder), Sys: sys, Guard: bpf.Guard{Pins: testPins(folder)},
		Log: func(e event.Event) {
			if e.Warning != "" {
				fmt.Fprintln(os.Stderr, "warning:", e.Warning)
			}
			if e.Notice != "" && os.Getenv("GRESNET_BED_NOTICES") != "" {
				fmt.Fprintln(os.Stderr, e.Notice)
			}
		},
		Config: config.Config{Deadline: config.Default().Deadline, Uplink: testUplink(), Overlay: testOverlay(), Hooks: testHooks()},
		Now: func() time.Time {
			if seen++; seen == n {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if os.Getenv("GRESNET_BED_AT") == strconv.Itoa(seen) {
				if err := befall(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
			if os.Getenv("GRESNET_BED_MANY") == "" && nodeLocked(folder) {
				fmt.Fprintln(os.Stderr, "the node lock is held for more than a claim")
				os.Exit(1)
			}
			return time.Now()
		},
	})
	local.Undo = time.Minute
	return local
}

// befall has befall the node what the test wants.
func befall() error {
	then := os.Getenv("GRESNET_BED_THEN")
	if then == "" {
		return nil
	}
	if out, err := exec.Command("sh", "-ec", then).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", then, err, out)
	}
	return nil
}

func nodeLock(state string) string { return filepath.Join(state, "node.lock") }

// nodeLocked tells whether anybody holds the node lock, this process, too.
func nodeLocked(state string) bool {
	f, err := os.Open(nodeLock(state))
	if err != nil {
		return false // nobody ever did
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func testChild(program string) error {
	n, err := strconv.Atoi(os.Getenv("GRESNET_BED_KILL"))
	if err != nil {
		return err
	}
	if os.Getenv("GRESNET_BED_FAKE") != "" {
		addTestFake()
	}
	local := testNode(os.Getenv("GRESNET_BED_STATE"), n)
	ctx := context.Background()
	if text := os.Getenv("GRESNET_BED_DEADLINE"); text != "" {
		deadline, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	var l testLease
	if _, err := fmt.Sscan(os.Getenv("GRESNET_BED_LEASE"), &l.job, &l.hcas); err != nil {
		return err
	}
	switch program {
	case "epilog":
		return local.Restore(ctx, l.job, nil)
	case "cleanup":
		return local.Cleanup(ctx, Cleanup{})
	case "boot":
		return local.Cleanup(ctx, Cleanup{Boot: true})
	}
	if err := local.State.Make(); err != nil {
		return err
	}
	return underLock(ctx, local.Host, l.job, func() error { return testTake(ctx, local, l) })
}

// testLease is a job's, of the HCAs whose interfaces' names begin with a word.
type testLease struct {
	job  uint32
	hcas string
}

// whole is a lease of all that the node has.
var whole = testLease{testJob, "hca"}

// testUID returns the user of a job, whom a test says in the environment.
func testUID(job uint32) uint32 {
	uid, err := strconv.ParseUint(os.Getenv(fmt.Sprintf("GRESNET_BED_UID_%d", job)), 10, 32)
	if err != nil {
		return 1000
	}
	return uint32(uid)
}

// testTake is what take does, less what needs an RDMA device.
func testTake(ctx context.Context, n *Host, lease testLease) error {
	j := job.Job{ID: lease.job, UID: testUID(lease.job), GID: 1000, Node: cmp.Or(os.Getenv("GRESNET_BED_NODE"), "node1"), Nodes: os.Getenv("GRESNET_BED_NODES"), Conf: os.Getenv("GRESNET_BED_CONF")}
	if text := os.Getenv("GRESNET_BED_OTHERS"); text != "" {
		j.Leader, j.Others = testLeader, []string{text}
	}
	j.Share.Exclusive = os.Getenv(fmt.Sprintf("GRESNET_BED_EXCLUSIVE_%d", j.ID))
	l, err := create(ctx, n.Host, j)
	if err != nil {
		return err
	}
	defer l.Close()
	var all []*step.Settings
	err = l.World.OnHost(func(v *scan.View) error {
		list, err := v.Link.List()
		for _, i := range list {
			if err != nil || !strings.HasPrefix(i.Name, lease.hcas) && !slices.Contains(strings.Split(lease.hcas, ","), i.Name) {
				continue
			}
			s := &step.Settings{Of: node.ID{GUID: "0002:c903:00ab:" + i.Name, PCI: i.Name}, Port: 1, Interface: i.ID}
			s.Settings, err = v.Link.Settings(i.Index)
			all = append(all, s)
		}
		return err
	})
	if err != nil {
		return err
	}
	moves := func(i link.Interface) bool { return strings.HasPrefix(i.Name, "hca") }
	look := l.Look()
	look.CanMove = func() (func(link.Interface) bool, error) { return moves, nil }
	if err := l.World.OnHost(func(v *scan.View) error { return look.Apart(v, []step.HCA{{Interfaces: all}}) }); err != nil {
		return err
	}
	slot, err := testSlot(l, j.ID)
	if err != nil {
		return err
	}
	fakes, first, err := testKind(l, j)
	if err != nil {
		return err
	}
	claim := new(step.Claim)
	taken := &taking{Lease: l, job: j}
	if taken.pool, err = look.PoolFor(j, config.Access{}); err != nil {
		return err
	}
	err = l.DoBy(claim, func() (err error) {
		w := l.World
		if claim.Change, err = w.Table.Begin(ctx); err != nil {
			return err
		}
		defer claim.Change.Close()
		now := &claim.Change.Table
		for _, s := range all {
			now.Claims = append(now.Claims, table.Claim{HCA: s.Of, Job: j.ID, Run: j.Run.String()})
		}
		if slot != nil {
			now.Claims = append(now.Claims, table.Claim{HCA: slot.Of, Job: j.ID, Run: j.Run.String()})
		}
		now.Claims = append(now.Claims, fakes...)
		if fakes != nil {
			now.HCAs = []node.HCA{testFake}
		}
		if err := taken.claimUplink(now); err != nil {
			return err
		}
		taken.uplink = now.Uplink(j.ID, j.Run.String())
		claim.Take(w, claim.Change)
		if err := l.Journal.Add(claim.Kind(), claim); err != nil {
			return err
		}
		return claim.Do(w)
	})
	if err != nil {
		return err
	}
	steps := append(first, &step.Namespace{})
	network, err := look.Network(ctx, j, config.Access{})
	if err != nil {
		return err
	}
	over, up := taken.networks(network)
	if err := checkNames(up, network, interfaceNames([]step.HCA{{Interfaces: all}})); err != nil {
		return err
	}
	if over != nil {
		steps = append(steps, over)
	}
	if up != nil {
		steps = append(steps, up)
	}
	for _, s := range all {
		steps = append(steps, s)
	}
	for _, s := range all {
		steps = append(steps, &step.Link{Of: s.Of, Port: 1, Interface: s.Interface, Name: netlink.Name(s.Settings.Name), Settings: s.Settings, Mode: rdma.Shared})
	}
	if slot != nil {
		steps = append(steps, slot)
	}
	// Without another moment, that is when the settings were read.
	if os.Getenv("GRESNET_BED_AT") == "" {
		if err := befall(); err != nil {
			return err
		}
	}
	if err := l.CarryOut(ctx, steps); err != nil {
		return err
	}
	if err := taken.leadRails(look, network, []step.HCA{{Interfaces: all}}); err != nil {
		return err
	}
	if err := l.CarryOut(ctx, taken.hooks(rdma.Shared, []string{"hca0", "hca1"})); err != nil {
		return err
	}
	return environment.Lease{
		Host: n.Host, World: l.World, Job: j, Mode: rdma.Shared,
		Uplink: taken.made(), Network: network, Srun: l.World.WayOut.Srun,
	}.Write()
}

// testRises is a shell command that succeeds while the kernel has yet to come to an interface that was brought up, in
// a work queue (link_watch.c).
const testRises = "ip -br link show up | grep -v '^lo ' | grep -qv ' UP '"

// testBed is a node in a network namespace, with two interfaces that have much to lose,
// some of it together.
func testBed(t testing.TB) (node *netnstest.NS, state string) {
	node, state = apartBed(t)
	node.Run(`ip route add 172.17.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.1.0.1 dev hca1; ip -6 route add fd17::/64 nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev hca1
ip nexthop add id 7 via 10.0.0.1 dev hca0; ip nexthop add id 8 via 10.1.0.1 dev hca1; ip nexthop add id 9 group 7/8; ip route add 172.18.0.0/16 nhid 9
ip route add 172.19.0.0/16 via 10.0.0.1 dev hca0 src 10.1.0.2; ip route add 172.20.0.0/16 via 10.1.0.1 dev hca1 src 10.0.0.2`)
	return node, state
}

// apartBed is testBed without what the two have together: each may have a job of its own.
func apartBed(t testing.TB) (node *netnstest.NS, state string) {
	node = netnstest.New(t)
	node.Run(`sysctl -qw net.ipv6.conf.default.accept_dad=0; ip link add hca0 type veth peer name far; ip link set far up
ip link set hca0 mtu 1400 alias 'rail 0' txqueuelen 77; ip link property add dev hca0 altname rail0
sysctl -qw net.ipv4.conf.hca0.rp_filter=2
ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0; ip addr add 10.0.0.9/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0 nodad
ip addr add 239.1.1.1/32 dev hca0 autojoin; ip -6 addr add ff05::77/64 dev hca0 nodad autojoin
ip route add 172.16.0.0/16 via 10.0.0.1 dev hca0 metric 77; ip route add default via 10.0.0.1 dev hca0 table 100
ip rule add from 10.0.0.2 table 100 pref 100; ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:07 dev hca0 nud permanent
ip link add mv0 link hca0 type macvlan mode bridge; ip link set mv0 up; ip addr add 10.5.0.2/24 dev mv0; ip addr add 239.1.1.2/32 dev mv0 autojoin; ip -6 addr add ff05::78/64 dev mv0 nodad autojoin
ip link add hca1 type veth peer name farther; ip link set farther up; ip link set hca1 up; ip addr add 10.1.0.2/24 dev hca1; ip -6 addr add fd01::2/64 dev hca1 nodad
while ip -6 addr | grep -q tentative || ! ip -6 route show table local | grep -q fd01::2 || ` + testRises + `; do sleep 0.02; done`)
	return node, t.TempDir()
}

func testPicture(node *netnstest.NS) string {
	return strings.Join(firewall(node), "\n") + "\n" + node.Run(`grep -s . /proc/sys/net/ipv4/conf/*/forwarding /proc/sys/net/ipv4/conf/*/accept_local; for i in $(ls /sys/class/net); do tc qdisc show dev $i clsact; for h in ingress egress; do tc filter show dev $i $h; done; done 2>/dev/null; ip -d link | sed 's/ qdisc [a-z]*//'; ip -d addr; ip -d route show table all | sort; ip -d -6 route show table all | sort; ip rule; ip neigh show nud permanent; ip nexthop; ip maddr show | sort
grep -rs . /proc/sys/net/ipv4/conf/hca0 /proc/sys/net/ipv6/conf/hca0 | sort || [ $? = 2 ]`)
}

// firewall is what nftables has: each table, and each chain with how many rules.
func firewall(node *netnstest.NS) (all []string) {
	err := node.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		for _, t := range tables {
			all = append(all, "table "+t.Name)
		}
		if err != nil {
			return err
		}
		chains, err := c.ListChains()
		for _, chain := range chains {
			rules, err := c.GetRules(chain.Table, chain)
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("chain %s %s: %d rules", chain.Table.Name, chain.Name, len(rules)))
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
}

// testRun runs a program in the node's namespace and tells whether it was killed.
func testRun(t testing.TB, node *netnstest.NS, state, program string, kill int) (killed bool) {
	t.Helper()
	return whole.run(t, node, state, program, kill)
}

func (l testLease) run(t testing.TB, node *netnstest.NS, state, program string, kill int) (killed bool) {
	t.Helper()
	out, err := l.command(node, state, program, kill).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return false
}

// says runs a program and returns its warnings.
func (l testLease) says(t *testing.T, node *netnstest.NS, state, program string) string {
	t.Helper()
	out, err := l.command(node, state, program, never).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}

func (l testLease) command(node *netnstest.NS, state, program string, kill int) *exec.Cmd {
	cmd := exec.Command("nsenter", "--net="+node.Path, os.Args[0])
	cmd.Env = append(os.Environ(), "GRESNET_BED="+program, "GRESNET_BED_STATE="+state,
		fmt.Sprintf("GRESNET_BED_LEASE=%d %s", l.job, l.hcas), fmt.Sprintf("GRESNET_BED_KILL=%d", kill))
	return cmd
}

const never = 0

// noCarrier is what ip says of an interface's carrier, and of its routes for want of one.
var noCarrier = regexp.MustCompile(`NO-CARRIER,|,LOWER_UP|,M-DOWN| linkdown| state [A-Z]+`)

func testSame(t *testing.T, node *netnstest.NS, state, before string) {
	t.Helper()
	after := testPicture(node)
	// An interface learns of its parent's and of its peer's carrier in a work queue
	// (link_watch.c), which has its time on a slow machine.
	for end := time.Now().Add(await.Most(t)); time.Now().Before(end) && after != before && noCarrier.ReplaceAllString(after, "") == noCarrier.ReplaceAllString(before, ""); {
		time.Sleep(100 * time.Millisecond)
		after = testPicture(node)
	}
	if diff := netnstest.Diff(before, after); diff != "" {
		t.Fatalf("the node is not as it was, before (-) and after (+):\n%s", diff)
	}
	if left, err := os.ReadDir(state + "/jobs"); err != nil || len(left) > 0 {
		t.Fatalf("leases are left: %v, %v", left, err)
	}
	now, err := table.Folder(state).Read()
	if err != nil || len(now.Claims) > 0 || len(now.Uplinks) > 0 || len(now.Hooked) > 0 {
		t.Fatalf("claims are left: %v, %v, %v", now.Claims, now.Uplinks, err)
	}
}

// killEach calls kill with the numbers of a program's looks at the clock, at which kill kills it, until the program
// ends without. It takes one of each four looks, and with GRESNET_TEST=long all: make test-rest does that. It logs how
// many looks the program has, who must have that many at least.
func killEach(t *testing.T, program string, least int, kill func(look int) (killed bool)) {
	t.Helper()
	if !strings.Contains(t.Name(), "Kill") {
		t.Fatal("make test-rest tells tests of kills by Kill in their names, and has them take all looks")
	}
	long := os.Getenv("GRESNET_TEST") == "long"
	for look, kills := 1, 0; ; look++ {
		at := look
		if !long {
			at, look = look+seed.IntN(4), look+3
		}
		if kill(at) {
			kills++
			continue
		}
		if at <= least {
			t.Errorf("%s ended before look %d", program, at)
		}
		t.Logf("%d kills of %s", kills, program)
		return
	}
}

// killAnywhere kills a prolog and then an epilog before and after its steps. Each time the next epilog
// finishes, and same looks at the node. Each program has that many steps at least.
func (l testLease) killAnywhere(t *testing.T, node *netnstest.NS, state string, least int, same func()) {
	t.Helper()
	for _, program := range []string{"prolog", "epilog"} {
		killEach(t, "the "+program, least, func(look int) bool {
			if program == "epilog" {
				l.run(t, node, state, "prolog", never)
			}
			killed := l.run(t, node, state, program, look)
			l.run(t, node, state, "epilog", never)
			same()
			return killed
		})
	}
}

func TestALeaseThatIsKilledBeforeOrAfterAnyStepIsUndone(t *testing.T) {
	netnstest.Slow(t)
	node, state := testBed(t)
	before := testPicture(node)
	whole.killAnywhere(t, node, state, 7, func() { testSame(t, node, state, before) })
}

func TestAnInterfaceWhoseAlternativeNameIsTakenIsReturnedWithoutIt(t *testing.T) {
	node, state := testBed(t)
	before := testPicture(node)
	testRun(t, node, state, "prolog", never)
	node.Run("ip link add rail0 type veth peer name rail0far")
	for range 2 {
		out, err := whole.command(node, state, "epilog", never).CombinedOutput()
		if want := "add alternative name rail0 to hca0: another interface has that name"; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("the epilog: %v: %s, wanted %q", err, out, want)
		}
		node.Run("ip -4 addr show dev hca0 up | grep -qF 10.0.0.9/24; ip route show 172.16.0.0/16 | grep -q hca0")
	}
	node.Run("ip link del rail0")
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

func TestAlternativeNamesThatAJobGaveToOthersOfItsInterfacesAreReturned(t *testing.T) {
	netnstest.Slow(t)
	for name, renames := range map[string]string{
		"one that is moved":         "ip link property del dev hca0 altname rail0; ip link property add dev hca1 altname rail0",
		"two that are swapped":      "ip link property del dev hca0 altname rail0; ip link property del dev hca1 altname rail1; ip link property add dev hca0 altname rail1; ip link property add dev hca1 altname rail0",
		"swapped names":             "ip link set hca0 down; ip link set hca1 down; ip link set hca0 name x; ip link set hca1 name hca0; ip link set x name hca1",
		"names as alternative ones": "ip link set hca0 down; ip link set hca1 down; ip link set hca1 name x; ip link set hca0 name y; ip link property add dev y altname hca1; ip link property add dev x altname hca0",
	} {
		t.Run(name, func(t *testing.T) {
			node, state := testBed(t)
			node.Run("ip link property add dev hca1 altname rail1")
			before := testPicture(node)
			testRun(t, node, state, "prolog", never)
			node.Run("nsenter --net=" + state + "/jobs/4711/netns sh -ec '" + renames + "'")
			if out := whole.says(t, node, state, "epilog"); out != "" {
				t.Errorf("it says %q", out)
			}
			testSame(t, node, state, before)
		})
	}
}

// openFile is a file that stays open, so that none that replaces it has its inode's number.
func openFile(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Whoever waits for a lock waits on a file: were that replaced, two would have the lock.
func TestTheNodeLockIsOneFileWhateverBecomesOfLeasesAndTheTable(t *testing.T) {
	node, state := testBed(t)
	testRun(t, node, state, "prolog", never)
	first := openFile(t, nodeLock(state))
	for _, r := range []struct {
		name, program string
		kill          int
		damage        func(path string) error
	}{
		{"an epilog", "epilog", never, nil},
		{"a prolog", "prolog", never, nil},
		{"an epilog without a table", "epilog", never, os.Remove},
		{"a prolog that is killed", "prolog", 6, nil},
		{"an epilog with a damaged table", "epilog", never, func(path string) error { return os.WriteFile(path, []byte("{}"), 0o644) }},
	} {
		if r.damage != nil {
			if err := r.damage(filepath.Join(state, "version")); err != nil {
				t.Fatal(err)
			}
		}
		testRun(t, node, state, r.program, r.kill)
		now, err := os.Stat(nodeLock(state))
		if err != nil || !os.SameFile(first, now) {
			t.Errorf("after %s it is another: %v", r.name, err)
		}
	}
}

func TestWhatIsInTheJobsNamespaceIsReturnedWhoeverHasItByTheTable(t *testing.T) {
	node, state := testBed(t)
	before := testPicture(node)
	testRun(t, node, state, "prolog", never)
	claims := func(job uint32) error {
		return table.Folder(state).Update(context.Background(), func(t *table.Table) error {
			if len(t.Claims) != 2 {
				return fmt.Errorf("the claims are %v", t.Claims)
			}
			for i := range t.Claims {
				t.Claims[i].Job = job
			}
			return nil
		})
	}
	if err := claims(testJob + 1); err != nil {
		t.Fatal(err)
	}
	testRun(t, node, state, "epilog", never)
	if diff := netnstest.Diff(before, testPicture(node)); diff != "" {
		t.Errorf("the node is not as it was, before (-) and after (+):\n%s", diff)
	}
	if err := claims(testJob); err != nil {
		t.Errorf("the other's claim was not left alone: %v", err)
	}
}
