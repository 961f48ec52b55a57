package lease

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// Two jobs that have an HCA each, of which the node has routes over both.
var (
	rail0 = lawLease{lawJob, "hca0"}
	rail1 = lawLease{lawJob + 1, "hca1"}
)

// owed are those of whose interfaces something is owed.
func owed(t *testing.T, state string) (names []string) {
	t.Helper()
	now, err := table.Folder(state).Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range now.Deferred {
		names = append(names, o.Of[0].Name)
	}
	return names
}

// ended fails unless a job has left nothing of its own.
func (l lawLease) ended(t *testing.T, state string) {
	t.Helper()
	now, err := table.Folder(state).Read()
	if err != nil || slices.ContainsFunc(now.Claims, func(c table.Claim) bool { return c.Job == l.job }) {
		t.Fatalf("job %d has claims still: %v, %v", l.job, now.Claims, err)
	}
}

func TestWhatTwoLeasesShareIsGivenWhenBothHaveEnded(t *testing.T) {
	netnstest.Slow(t)
	for name, order := range map[string][4]lawLease{
		"the first ends first":  {rail0, rail1, rail0, rail1},
		"the first ends last":   {rail0, rail1, rail1, rail0},
		"the second ends first": {rail1, rail0, rail0, rail1},
		"the second ends last":  {rail1, rail0, rail1, rail0},
	} {
		t.Run(name, func(t *testing.T) {
			node, state := lawBed(t)
			if order[0] == rail0 { // from an address that leaves before it the kernel takes the source of IPv6 routes
				node.Run("ip -6 route add fd20::/64 via fd00::1 dev hca0 src fd01::2")
			}
			before := lawPicture(node)
			order[0].run(t, node, state, "prolog", never)
			order[1].run(t, node, state, "prolog", never)
			order[2].run(t, node, state, "epilog", never)
			order[2].ended(t, state)
			// Who left first has seen all that is shared.
			if got := owed(t, state); slices.Contains(got, order[0].hcas) != (order[0] == order[2]) {
				t.Errorf("owed is what %q share", got)
			}
			order[3].run(t, node, state, "epilog", never)
			lawSame(t, node, state, before)
		})
	}
}

func TestNoKillOfAnEpilogLosesWhatIsOwed(t *testing.T) {
	netnstest.Slow(t)
	for name, order := range map[string][2]lawLease{"the first ends first": {rail0, rail1}, "the first ends last": {rail1, rail0}} {
		t.Run(name, func(t *testing.T) {
			node, state := lawBed(t)
			before := lawPicture(node)
			for which := range order {
				killEach(t, fmt.Sprintf("epilog %d", which+1), 1, func(look int) (killed bool) {
					rail0.run(t, node, state, "prolog", never)
					rail1.run(t, node, state, "prolog", never)
					for n, l := range order {
						if n == which {
							killed = l.run(t, node, state, "epilog", look)
						}
						l.run(t, node, state, "epilog", never)
						l.ended(t, state)
					}
					lawSame(t, node, state, before)
					return killed
				})
			}
		})
	}
}

func TestOfTwoEpilogsAtOnceOneGivesWhatTheyShare(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	before := lawPicture(node)
	t.Setenv("GRESNET_LAW_MANY", "1") // the other one may have the node lock
	for range 12 {
		rail0.run(t, node, state, "prolog", never)
		rail1.run(t, node, state, "prolog", never)
		other := make(chan string, 1)
		go func() {
			out, err := rail1.command(node, state, "epilog", never).CombinedOutput()
			other <- fmt.Sprint(string(out), err)
		}()
		if out := rail0.says(t, node, state, "epilog"); out != "" {
			t.Errorf("it says %q", out)
		}
		if out := <-other; out != "<nil>" {
			t.Errorf("the other one says %q", out)
		}
		lawSame(t, node, state, before)
	}
}

// A job that has one of them by then does not lose what is owed, and does not get it.
func TestWhatIsOwedWaitsForAJobThatHasOneOfThemAgain(t *testing.T) {
	node, state := lawBed(t)
	before := lawPicture(node)
	rail0.run(t, node, state, "prolog", never)
	rail1.run(t, node, state, "prolog", never)
	rail0.run(t, node, state, "epilog", never)
	next := lawLease{lawJob + 2, "hca0"}
	next.run(t, node, state, "prolog", never)
	rail1.run(t, node, state, "epilog", never)
	if got := owed(t, state); !slices.Contains(got, "hca0") {
		t.Errorf("owed is what %q share", got)
	}
	next.run(t, node, state, "epilog", never)
	lawSame(t, node, state, before)
}

// says runs a program and is what it warns of.
func (l lawLease) says(t *testing.T, node *netnstest.NS, state, program string) string {
	t.Helper()
	out, err := l.command(node, state, program, never).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}

func TestWhatCannotBeGivenStaysOwedAndFailsNoJob(t *testing.T) {
	node, state := lawBed(t)
	before := lawPicture(node)
	rail0.run(t, node, state, "prolog", never)
	rail1.run(t, node, state, "prolog", never)
	if out := rail0.says(t, node, state, "epilog"); out != "" {
		t.Errorf("nothing is wrong, but: %s", out)
	}
	node.Run("ip route del 10.0.0.0/24 dev hca0") // the way to a gateway
	out := rail1.says(t, node, state, "epilog")
	for _, want := range []string{"warning: still owed, since ", "network is unreachable: what hca0 shares with hca1: next hop object 9, route 172.1"} {
		if !strings.Contains(out, want) {
			t.Errorf("it says %q, wanted %q", out, want)
		}
	}
	rail1.ended(t, state)
	if got := owed(t, state); !slices.Equal(got, []string{"hca0"}) {
		t.Errorf("owed is what %q share", got)
	}
	node.Run("ip route add 10.0.0.0/24 dev hca0 proto kernel scope link src 10.0.0.2")
	if out := rail1.says(t, node, state, "sweep"); out != "" {
		t.Errorf("a sweep says %q", out)
	}
	lawSame(t, node, state, before)
}

// What the node owes an interface that it lost, and what it owes another one with it, is given when the
// interface is back.
func TestWhatIsOwedWithAnInterfaceThatTheNodeLostWaitsForIt(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	before := lawPicture(node)
	again := againOf(node)
	rail0.run(t, node, state, "prolog", never)
	rail1.run(t, node, state, "prolog", never)
	rail0.run(t, node, state, "epilog", never)
	node.Run("nsenter --net=" + state + "/jobs/4712/netns ip link del hca1")
	t.Setenv("GRESNET_LAW_LOST", "1")
	text, err := rail1.command(node, state, "epilog", never).CombinedOutput()
	if out := string(text); err == nil || !strings.Contains(out, "the node does not have hca1 with its settings any more") {
		t.Errorf("%v: it says %q", err, out)
	}
	quarantined := func() bool {
		now, err := table.Folder(state).Read()
		return err == nil && slices.ContainsFunc(now.Claims, func(c table.Claim) bool { return c.Job == rail1.job && c.Quarantined != "" })
	}
	for _, out := range []string{rail1.says(t, node, state, "sweep"), rail1.says(t, node, state, "epilog")} { // it is not back
		if out != "" || !quarantined() {
			t.Errorf("it says %q, and is quarantined: %t", out, quarantined())
		}
	}
	node.Run(again)
	t.Setenv("GRESNET_LAW_LOST", "")
	if out := rail1.says(t, node, state, "sweep"); out != "" {
		t.Errorf("a sweep says %q", out)
	}
	rail1.ended(t, state)
	if got := owed(t, state); len(got) > 0 {
		t.Errorf("owed is what %q share", got)
	}
	lawSame(t, node, state, before)
}

// againOf returns the command that makes hca1 again after it is lost, as its driver would.
func againOf(node *netnstest.NS) string {
	return strings.TrimSpace(node.Run("echo ip link add hca1 index $(cat /sys/class/net/hca1/ifindex) address $(cat /sys/class/net/hca1/address) type veth" +
		" peer name farther index $(cat /sys/class/net/farther/ifindex) address $(cat /sys/class/net/farther/address) '; ip link set farther up'"))
}

// What the two share waits for the dead one, and the other one does not.
func TestADeadHCAKeepsNoHCAThatSharesRoutesWithItFromLaterJobs(t *testing.T) {
	netnstest.Slow(t)
	for name, leases := range map[string][]lawLease{"of two jobs": {rail1, rail0}, "of one job": {whole}} {
		t.Run(name, func(t *testing.T) {
			node, state := lawBed(t)
			before, again := lawPicture(node), againOf(node)
			for _, l := range leases {
				l.run(t, node, state, "prolog", never)
			}
			node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link del hca1", state, leases[0].job))
			t.Setenv("GRESNET_LAW_LOST", "1")
			for _, l := range leases {
				if err := l.command(node, state, "epilog", never).Run(); (err != nil) != (l == leases[0]) {
					t.Errorf("the epilog of job %d: %v", l.job, err)
				}
			}
			now, err := table.Folder(state).Read()
			if err != nil || len(now.Claims) != 1 || now.Claims[0].HCA.PCI != "hca1" {
				t.Errorf("claims %+v, %v: wanted that of the dead one", now.Claims, err)
			}
			node.Run(again)
			t.Setenv("GRESNET_LAW_LOST", "")
			if out := rail0.says(t, node, state, "sweep"); out != "" {
				t.Errorf("a sweep says %q", out)
			}
			lawSame(t, node, state, before)
		})
	}
}

func TestNoKillLosesWhatTheNodeOwesAnInterfaceThatItLost(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	before := lawPicture(node)
	again := againOf(node)
	const step = 5 // of the moments at which it could be killed: each takes seconds
	for n, killed := 1, true; killed; n += step {
		rail0.run(t, node, state, "prolog", never)
		rail1.run(t, node, state, "prolog", never)
		rail0.run(t, node, state, "epilog", never)
		node.Run("nsenter --net=" + state + "/jobs/4712/netns ip link del hca1")
		t.Setenv("GRESNET_LAW_LOST", "1")
		for _, kill := range []int{n, never} {
			_ = rail1.command(node, state, "epilog", kill).Run() // the one that is not killed says what is lost, or it was said
		}
		node.Run(again)
		t.Setenv("GRESNET_LAW_LOST", "")
		killed = rail1.run(t, node, state, "sweep", n)
		rail1.run(t, node, state, "sweep", never)
		lawSame(t, node, state, before)
		if left, err := os.ReadDir(state + "/lost"); err != nil || len(left) > 0 {
			t.Fatalf("after a kill at moment %d the node still owes: %v, %v", n, left, err)
		}
	}
}

// slurmctld begins at job 1 again when it has lost its state, so a later job can have the number and the
// run of one whose lease ended with a loss, and live when what that lost comes back.
func TestAnHCAThatComesBackFreesNoneOfALaterJobOfTheSameNumber(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	again := againOf(node)
	rail1.run(t, node, state, "prolog", never)
	node.Run("nsenter --net=" + state + "/jobs/4712/netns ip link del hca1")
	t.Setenv("GRESNET_LAW_LOST", "1")
	if err := rail1.command(node, state, "epilog", never).Run(); err == nil {
		t.Error("an epilog passes that lost an HCA")
	}
	later := lawLease{rail1.job, "hca0"}
	later.run(t, node, state, "prolog", never)
	node.Run(again)
	t.Setenv("GRESNET_LAW_LOST", "")
	_ = rail0.command(node, state, "sweep", never).Run() // what the two share stays owed while the later job lives
	now, err := table.Folder(state).Read()
	if err != nil || !slices.ContainsFunc(now.Claims, func(c table.Claim) bool { return c.HCA.PCI == "hca0" && c.Job == later.job && !c.Doubt }) {
		t.Errorf("the later job lives, and the claims are %+v: %v", now.Claims, err)
	}
	later.run(t, node, state, "epilog", never)
}

// slurmctld begins at job 1 again when it has lost its state, so a later job can have the number and the
// run of one whose lease ended with a loss: the HCA stays quarantined until it is back.
func TestAnHCAThatTheNodeLostIsNotFreedByALaterJobOfTheSameNumber(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	before := lawPicture(node)
	again := againOf(node)
	rail0.run(t, node, state, "prolog", never)
	rail1.run(t, node, state, "prolog", never)
	rail0.run(t, node, state, "epilog", never)
	node.Run("nsenter --net=" + state + "/jobs/4712/netns ip link del hca1")
	t.Setenv("GRESNET_LAW_LOST", "1")
	if text, err := rail1.command(node, state, "epilog", never).CombinedOutput(); err == nil || !strings.Contains(string(text), "the node does not have hca1") {
		t.Errorf("the epilog: %v: %s", err, text)
	}
	later := lawLease{rail1.job, "hca0"}
	later.run(t, node, state, "prolog", never)
	later.run(t, node, state, "epilog", never)
	now, err := table.Folder(state).Read()
	if err != nil || len(now.Claims) != 1 || now.Claims[0].HCA.PCI != "hca1" || now.Claims[0].Quarantined == "" {
		t.Errorf("after a later job of that number the claims are %+v: %v", now.Claims, err)
	}
	node.Run(again)
	t.Setenv("GRESNET_LAW_LOST", "")
	if out := rail0.says(t, node, state, "sweep"); out != "" {
		t.Errorf("a sweep says %q", out)
	}
	lawSame(t, node, state, before)
}

// Two leases of one number and run lost an HCA each, as trials of gresnet try can.
func TestAnHCAThatComesBackFreesNoOtherLostOneOfTheSameNumber(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	again := againOf(node)
	for _, hca := range []string{"hca1", "hca0"} {
		l := lawLease{rail1.job, hca}
		l.run(t, node, state, "prolog", never)
		node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link del %s", state, l.job, hca))
		t.Setenv("GRESNET_LAW_LOST", "1")
		if err := l.command(node, state, "epilog", never).Run(); err == nil {
			t.Error("an epilog passes that lost an HCA")
		}
		t.Setenv("GRESNET_LAW_LOST", "")
	}
	node.Run(again)
	_ = rail0.command(node, state, "sweep", never).Run() // hca0 is still lost
	now, err := table.Folder(state).Read()
	if err != nil || !slices.ContainsFunc(now.Claims, func(c table.Claim) bool { return c.HCA.PCI == "hca0" && c.Quarantined != "" }) {
		t.Errorf("hca0 is lost, and the claims are %+v: %v", now.Claims, err)
	}
}

// What is just absent is no other lease's: that it cannot be shared is the job's to say.
func TestWhatNoLeaseHasIsNotOwed(t *testing.T) {
	node, state := lawBed(t)
	away := netnstest.New(t)
	t.Cleanup(func() { exec.Command("umount", "-l", state+"/jobs/4711/netns").Run() })
	rail0.run(t, node, state, "prolog", never)
	node.Run("ip link set hca1 netns " + away.Path)
	out, err := rail0.command(node, state, "epilog", never).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "add next hop object 9 to hca0") {
		t.Errorf("the epilog: %v: %s", err, out)
	}
	if got := owed(t, state); len(got) > 0 {
		t.Errorf("owed is what %q share", got)
	}
}

// line returns a line for a shell that runs a program of a lease.
func (l lawLease) line(program string, kill int) string {
	return fmt.Sprintf("GRESNET_LAW_AT=0 GRESNET_LAW_THEN= GRESNET_LAW_KILL=%d GRESNET_LAW=%s GRESNET_LAW_LEASE='%d %s' %s", kill, program, l.job, l.hcas, os.Args[0])
}

// meet runs a program of a lease, and some lines when it looks for the n-th time; 0: when a prolog has read the
// settings. It tells whether the program looked so often. A program that is to be killed dies at its next look.
func (l lawLease) meet(t *testing.T, node *netnstest.NS, state, program string, n int, killed bool, lines ...string) bool {
	t.Helper()
	met, kill := filepath.Join(t.TempDir(), "met"), never
	if killed {
		kill = n + 1
	}
	cmd := l.command(node, state, program, kill)
	if n > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GRESNET_LAW_AT=%d", n))
	}
	// Others look while the first one waits for them.
	cmd.Env = append(cmd.Env, "GRESNET_LAW_MANY=1", "GRESNET_LAW_THEN=touch "+met+"\n"+strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil && !killed || len(out) > 0 {
		t.Fatalf("%s of %s, at look %d %q: %v: %s", program, l.hcas, n, lines, err, out)
	}
	_, err := os.Stat(met)
	return err == nil
}

// test/model found it: CLAIMED_IS_LEASED.
func TestWhatAJobSharesWithAnotherThatHasNotNotedItYetIsNotLost(t *testing.T) {
	node, state := lawBed(t)
	before := lawPicture(node)
	rail0.run(t, node, state, "prolog", never)
	// The other one's prolog has read that there is no route over both, and claimed its HCA.
	rail1.meet(t, node, state, "prolog", 0, false, rail0.line("epilog", never))
	if got := owed(t, state); !slices.Contains(got, "hca0") {
		t.Errorf("owed is what %q share", got)
	}
	rail1.run(t, node, state, "epilog", never)
	lawSame(t, node, state, before)
}

// A prolog reads what is shared while another one has moved one of its two interfaces.
func TestWhatAJobSharesWithOneThatIsOnItsWayIsNotLost(t *testing.T) {
	netnstest.Slow(t)
	node, state := fourRails(t)
	before := lawPicture(node)
	both := lawLease{lawJob + 4, "hca0,hca1"}
	for n := 1; ; n++ {
		met := both.meet(t, node, state, "prolog", n, false, rail2.line("prolog", never))
		if met {
			rail2.run(t, node, state, "epilog", never)
		}
		both.run(t, node, state, "epilog", never)
		if lawSame(t, node, state, before); !met {
			return
		}
	}
}

// One ends while the other one, which shares routes with it, is anywhere, as it is where it has noted all and moved nothing.
func TestPrologsThatAreKilledSideBySideLoseNothingAndLeaveNothingToBeDone(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	node.Run("ip -6 route add fd19::/64 via fd00::1 dev hca0 src fd01::2; ip -6 route add fd20::/64 via fd01::1 dev hca1 src fd00::2")
	before := lawPicture(node)
	looks := 0
	for rail0.meet(t, node, state, "prolog", looks+1, false) {
		rail0.run(t, node, state, "epilog", never)
		looks++
	}
	rail0.run(t, node, state, "epilog", never)
	const step = 2 // of all moments
	for first, lines := range [][]string{{}, {rail1.line("epilog", never)}} {
		for n := 1 + first; n < looks; n += step {
			for m := 1 + first; m <= looks+step; m += step { // the last one is not killed
				// The second one is killed, and its epilog runs while the first one goes on; or the first one is killed, too.
				rail0.meet(t, node, state, "prolog", n, first == 0, append([]string{rail1.line("prolog", m) + " || true"}, lines...)...)
				for _, l := range []lawLease{rail0, rail1} {
					if out := l.says(t, node, state, "epilog"); out != "" {
						t.Errorf("the epilog of %s says %q", l.hcas, out)
					}
				}
				if lawSame(t, node, state, before); t.Failed() {
					t.Fatalf("after kills at looks %d and %d, %q", n, m, lines)
				}
			}
		}
	}
	t.Logf("%d looks", looks)
}

// What the second lacks for two reasons is due last, and is less than what the first one had.
func TestWhatFourJobsShareIsWholeWhenTheyEndAsTheyBegan(t *testing.T) {
	netnstest.Slow(t)
	node, state := fourRails(t)
	node.Run("ip nexthop add id 13 group 8/12; ip route add 172.32.0.0/16 nhid 13")
	before := lawPicture(node)
	inTurn(t, node, state, before, []lawLease{rail0, rail1, rail2, rail3}, []lawLease{rail0, rail1, rail2, rail3})
}

// rail2 and rail3 have the two rails that fourRails adds.
var rail2, rail3 = lawLease{lawJob + 2, "hca2"}, lawLease{lawJob + 3, "hca3"}

// fourRails adds two rails to lawBed. Three have a hop of a group and of an IPv6 route.
func fourRails(t *testing.T) (node *netnstest.NS, state string) {
	node, state = lawBed(t)
	node.Run(`ip link add hca2 type veth peer name farthest; ip link set farthest up; ip link set hca2 up; ip addr add 10.2.0.2/24 dev hca2; ip -6 addr add fd02::2/64 dev hca2 nodad
ip link add hca3 type veth peer name farmost; ip link set farmost up; ip link set hca3 up; ip addr add 10.3.0.2/24 dev hca3
while ip -6 addr | grep -q tentative || ! ip -6 route show table local | grep -q fd02::2 || ` + lawRises + `; do sleep 0.02; done
ip -6 route add fd30::/64 nexthop via fd00::1 dev hca0 nexthop via fd01::1 dev hca1 nexthop via fd02::1 dev hca2
ip nexthop add id 10 via 10.2.0.1 dev hca2; ip nexthop add id 11 group 7/8/10; ip route add 172.31.0.0/16 nhid 11; ip nexthop add id 12 via 10.3.0.1 dev hca3`)
	return node, state
}

// inTurn has jobs begin in one order and end in another one, without a word, and the node be as before.
func inTurn(t *testing.T, node *netnstest.NS, state, before string, begin, end []lawLease) {
	t.Helper()
	says := func(l lawLease, program string) {
		if out := l.says(t, node, state, program); out != "" {
			t.Errorf("the %s of %s says %q", program, l.hcas, out)
		}
	}
	for _, l := range begin {
		says(l, "prolog")
	}
	for _, l := range end {
		says(l, "epilog")
	}
	lawSame(t, node, state, before)
}

// Each of three rails has a job of its own, whatever order they end in.
func TestWhatThreeJobsShareIsWholeWhenAllHaveEnded(t *testing.T) {
	netnstest.Slow(t)
	node, state := fourRails(t)
	before := lawPicture(node)
	rails := []lawLease{rail0, rail1, rail2}
	for _, ends := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		inTurn(t, node, state, before, rails, []lawLease{rails[ends[0]], rails[ends[1]], rails[ends[2]]})
	}
}

// Trials of gresnet try have one number and run, and so can jobs after slurmctld has lost its state.
func TestWhatTwoLeasesOfOneNumberAndRunShareWithOthersIsWholeWhenAllHaveEnded(t *testing.T) {
	netnstest.Slow(t)
	node, state := fourRails(t)
	node.Run("ip route add 172.32.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.3.0.1 dev hca3")
	before := lawPicture(node)
	for _, other := range []lawLease{rail1, rail3} {
		rail0.run(t, node, state, "prolog", never)
		other.run(t, node, state, "prolog", never)
		rail0.run(t, node, state, "epilog", never)
	}
	rail3.run(t, node, state, "epilog", never)
	rail1.run(t, node, state, "epilog", never)
	lawSame(t, node, state, before)
}

// IPv6 keeps a route from an address that leaves the node.
func TestAnIPv6RouteFromAnAddressThatAnotherJobHasIsWholeWhenBothHaveEnded(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	node.Run("ip -6 route add fd19::/64 via fd00::1 dev hca0 src fd01::2; ip -6 route add fd20::/64 via fd01::1 dev hca1 src fd00::2")
	before := lawPicture(node)
	for _, ends := range [][]lawLease{{rail0, rail1}, {rail1, rail0}} {
		inTurn(t, node, state, before, []lawLease{rail0, rail1}, ends)
	}
}

// It has noted all and moved nothing when it is killed, and another job takes the other interface of an IPv6 route.
func TestAnInterfaceThatNeverLeftKeepsItsPartOfWhatItIsOwed(t *testing.T) {
	netnstest.Slow(t)
	node, state := lawBed(t)
	before, stayed := lawPicture(node), 0
	for n, met := 1, true; met; n++ {
		met = rail1.meet(t, node, state, "prolog", n, true, rail0.line("prolog", never))
		part := node.Run("ip -6 route show fd17::/64")
		if out := rail1.says(t, node, state, "epilog"); out != "" {
			t.Errorf("the epilog says %q", out)
		}
		if strings.Contains(part, "hca1") {
			if now := node.Run("ip -6 route show fd17::/64"); now != part {
				t.Errorf("killed at look %d it had %q, and after its epilog %q", n, part, now)
			}
			stayed++
		}
		if met {
			rail0.run(t, node, state, "epilog", never)
		}
		rail1.run(t, node, state, "epilog", never)
		lawSame(t, node, state, before)
	}
	if stayed == 0 {
		t.Error("no kill was before the move")
	}
}

// The kernel removes them with the address, and says only of the objects which interfaces they go through.
func TestOthersRoutesByObjectsFromAnAddressOfTheInterfaceComeBack(t *testing.T) {
	netnstest.Slow(t)
	node, state := fourRails(t)
	node.Run(`ip route add 172.70.0.0/16 nhid 8 src 10.0.0.2; ip nexthop add id 40 group 8/10; ip route add 172.71.0.0/16 nhid 40 src 10.0.0.2
ip route add 172.72.0.0/16 nhid 9 src 10.0.0.2; ip route add 172.73.0.0/16 nhid 7 src 10.1.0.2; ip route add 172.74.0.0/16 nhid 7 src 10.2.0.2; ip route add 172.75.0.0/16 nhid 7 src 10.0.0.2`)
	before := lawPicture(node)
	for _, leases := range [][]lawLease{{rail0}, {rail1}, {rail0, rail1}, {rail1, rail0}, {rail0, rail2, rail1}, {rail2, rail1, rail0}} {
		inTurn(t, node, state, before, leases, leases)
	}
}
