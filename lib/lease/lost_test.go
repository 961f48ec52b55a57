package lease

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// againOf returns the command that makes hca1 again after it is lost, as its driver would.
func againOf(node *netnstest.NS) string {
	return strings.TrimSpace(node.Run("echo ip link add hca1 index $(cat /sys/class/net/hca1/ifindex) address $(cat /sys/class/net/hca1/address) type veth" +
		" peer name farther index $(cat /sys/class/net/farther/ifindex) address $(cat /sys/class/net/farther/address) '; ip link set farther up'"))
}

// loses has the node lose an HCA's interface while a job has it, whose epilog says so.
func (l testLease) loses(t *testing.T, node *netnstest.NS, state, hca string) {
	t.Helper()
	node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link del %s", state, l.job, hca))
	t.Setenv("GRESNET_BED_LOST", "1")
	if out, err := l.command(node, state, "epilog", never).CombinedOutput(); err == nil || !strings.Contains(string(out), "the node does not have "+hca) {
		t.Errorf("the epilog: %v: %s", err, out)
	}
}

func held(t *testing.T, state string) []table.Claim {
	t.Helper()
	now, err := table.Folder(state).Read()
	if err != nil {
		t.Fatal(err)
	}
	return now.Claims
}

func quarantined(t *testing.T, state, hca string) bool {
	return slices.ContainsFunc(held(t, state), func(c table.Claim) bool { return c.HCA.PCI == hca && c.Quarantined != "" })
}

func TestAnHCAThatTheNodeLostIsQuarantinedUntilItIsBack(t *testing.T) {
	netnstest.Slow(t)
	for _, l := range []testLease{rail1, whole} {
		node, state := apartBed(t)
		before, again := testPicture(node), againOf(node)
		l.run(t, node, state, "prolog", never)
		l.loses(t, node, state, "hca1")
		if claims := held(t, state); len(claims) != 1 || !quarantined(t, state, "hca1") {
			t.Errorf("of the lost one's lease the claims are %+v", claims)
		}
		rail0.run(t, node, state, "prolog", never) // the other HCA is free
		for _, program := range []string{"cleanup", "epilog"} {
			if out := l.says(t, node, state, program); out != "" || !quarantined(t, state, "hca1") {
				t.Errorf("it is not back, and the %s says %q", program, out)
			}
		}
		rail0.run(t, node, state, "epilog", never)
		node.Run(again)
		t.Setenv("GRESNET_BED_LOST", "")
		if out := l.says(t, node, state, "cleanup"); out != "" {
			t.Errorf("a cleanup says %q", out)
		}
		testSame(t, node, state, before)
	}
}

func TestAnHCAThatSharesRoutesWithALostOneOfItsJobWaitsForIt(t *testing.T) {
	netnstest.Slow(t)
	node, state := testBed(t)
	before, again := testPicture(node), againOf(node)
	whole.run(t, node, state, "prolog", never)
	node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link del hca1", state, testJob))
	t.Setenv("GRESNET_BED_LOST", "1")
	for range 2 {
		out, err := whole.command(node, state, "epilog", never).CombinedOutput()
		if err == nil || !quarantined(t, state, "hca0") || !quarantined(t, state, "hca1") {
			t.Errorf("the epilog: %v: %s: the claims are %+v", err, out, held(t, state))
		}
	}
	node.Run(again)
	t.Setenv("GRESNET_BED_LOST", "")
	if out := whole.says(t, node, state, "epilog"); out != "" {
		t.Errorf("an epilog says %q", out)
	}
	testSame(t, node, state, before)
}

func TestNoKillLosesTheSettingsOfAnHCAThatTheNodeLost(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	before, again := testPicture(node), againOf(node)
	const step = 5 // of the moments at which it could be killed: each takes seconds
	for n, killed := 1, true; killed; n += step {
		rail1.run(t, node, state, "prolog", never)
		node.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link del hca1", state, rail1.job))
		t.Setenv("GRESNET_BED_LOST", "1")
		for _, kill := range []int{n, never} {
			_ = rail1.command(node, state, "epilog", kill).Run() // the one that is not killed says what is lost, or it was said
		}
		node.Run(again)
		t.Setenv("GRESNET_BED_LOST", "")
		killed = rail1.run(t, node, state, "cleanup", n)
		rail1.run(t, node, state, "cleanup", never)
		testSame(t, node, state, before)
		if left, err := os.ReadDir(state + "/lost"); err != nil || len(left) > 0 {
			t.Fatalf("after a kill at moment %d there is still: %v, %v", n, left, err)
		}
	}
}

// slurmctld begins at job 1 again when it has lost its state, so a later job can have the number and the
// run of one whose lease ended with a loss, and live when what that lost comes back.
func TestAnHCAThatComesBackFreesNoneOfALaterJobOfTheSameNumber(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	before, again := testPicture(node), againOf(node)
	rail1.run(t, node, state, "prolog", never)
	rail1.loses(t, node, state, "hca1")
	later := testLease{rail1.job, "hca0"}
	later.run(t, node, state, "prolog", never)
	later.run(t, node, state, "epilog", never)
	if !quarantined(t, state, "hca1") {
		t.Errorf("a later job of that number has ended, and the claims are %+v", held(t, state))
	}
	later.run(t, node, state, "prolog", never)
	node.Run(again)
	t.Setenv("GRESNET_BED_LOST", "")
	rail0.run(t, node, state, "cleanup", never)
	if !slices.ContainsFunc(held(t, state), func(c table.Claim) bool { return c.HCA.PCI == "hca0" && c.Job == later.job && !c.Doubt }) {
		t.Errorf("the later job lives, and the claims are %+v", held(t, state))
	}
	later.run(t, node, state, "epilog", never)
	rail0.run(t, node, state, "cleanup", never)
	testSame(t, node, state, before)
}

// Two leases of one number and run lost an HCA each, as trials of gresnet try can.
func TestAnHCAThatComesBackFreesNoOtherLostOneOfTheSameNumber(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	again := againOf(node)
	for _, hca := range []string{"hca1", "hca0"} {
		l := testLease{rail1.job, hca}
		l.run(t, node, state, "prolog", never)
		l.loses(t, node, state, hca)
		t.Setenv("GRESNET_BED_LOST", "")
	}
	node.Run(again)
	rail0.run(t, node, state, "cleanup", never) // hca0 is still lost
	if !quarantined(t, state, "hca0") || quarantined(t, state, "hca1") {
		t.Errorf("hca0 is lost, and the claims are %+v", held(t, state))
	}
}
