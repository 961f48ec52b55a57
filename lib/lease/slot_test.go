package lease

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/step"
	"gresnet/lib/network/virtual"
	"gresnet/test/await"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// testSlot returns the interface of a job's slot on the interface that the test names, nil if it
// names none.
func testSlot(l *Lease, job uint32) (s *step.Child, err error) {
	parent := os.Getenv("GRESNET_BED_SLOT")
	if parent == "" {
		return nil, nil
	}
	number := int(job % 100)
	c := virtual.Child{Kind: "macvlan", Name: parent, Index: virtual.ChildIndex(0, 0, number), MAC: virtual.ChildMAC(parent, number)}
	c.Address = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64, 0, byte(number)}), 16)
	err = l.World.OnHost(func(v *scan.View) error {
		i, err := v.Link.Named(parent)
		id := node.ID{GUID: "0002:c903:00ab:0000", PCI: parent, Slot: fmt.Sprint(number)}
		s = &step.Child{Of: id, Name: c.Name, Type: c.Kind, Index: c.Index, Link: c, Parent: i.Index}
		return err
	})
	return s, err
}

// A job whose HCAs' interfaces begin with this word has none that moves.
const nothing = "nothing"

func TestAKillBeforeOrAfterAnyStepLosesNothingOfASlotAndOfThatOfAnotherJob(t *testing.T) {
	netnstest.Slow(t)
	t.Setenv("GRESNET_BED_SLOT", "hca0")
	bed, state := testBed(t)
	first := testPicture(bed)
	other, job := testLease{testJob + 1, nothing}, testLease{testJob, nothing}
	other.run(t, bed, state, "prolog", never)
	inside := func(l testLease) string {
		return bed.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip -o -4 addr show | awk '{print $2, $4}'", state, l.job))
	}
	before, had := testPicture(bed), inside(other)
	if !strings.Contains(had, "10.64.0.12/16") {
		t.Fatalf("the other job has\n%s", had)
	}
	same := func(when string) {
		t.Helper()
		// The kernel tells of a parent's new state in a work queue (link_watch.c).
		diff := netnstest.Diff(before, testPicture(bed))
		for end := time.Now().Add(await.Most(t)); diff != "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			diff = netnstest.Diff(before, testPicture(bed))
		}
		if diff != "" {
			t.Fatalf("%s the node is not as it was, before (-) and after (+):\n%s", when, diff)
		}
		if now := inside(other); now != had {
			t.Fatalf("%s the other job had\n%s\nand has\n%s", when, had, now)
		}
	}
	killEach(t, "the prolog", 4, func(look int) bool {
		killed := job.run(t, bed, state, "prolog", look)
		job.run(t, bed, state, "epilog", never)
		same(fmt.Sprintf("after the prolog was killed at look %d", look))
		return killed
	})
	killEach(t, "the epilog", 3, func(look int) bool {
		job.run(t, bed, state, "prolog", never)
		if now := inside(job); !strings.Contains(now, "10.64.0.11/16") {
			t.Fatalf("the job has\n%s", now)
		}
		bed.Run(fmt.Sprintf("nsenter --net=%s/jobs/%d/netns ip link set hca0 name mine0 address 02:00:00:00:00:99", state, job.job))
		killed := job.run(t, bed, state, "epilog", look)
		job.run(t, bed, state, "epilog", never)
		same(fmt.Sprintf("after the epilog was killed at look %d", look))
		return killed
	})
	other.run(t, bed, state, "epilog", never)
	testSame(t, bed, state, first)
}

// Somebody keeps the job's namespace, so the interface does not go with it.
func TestTheInterfaceOfASlotGoesThoughItsNamespaceStaysAndItsEntryIsLost(t *testing.T) {
	t.Setenv("GRESNET_BED_SLOT", "hca0")
	for _, lost := range []bool{false, true} {
		bed, state := testBed(t)
		before := testPicture(bed)
		job := testLease{testJob, nothing}
		job.run(t, bed, state, "prolog", never)
		lease := fmt.Sprintf("%s/jobs/%d", state, job.job)
		if lost {
			bed.Run("sed -i '/\"child\"/s/./x/' " + lease + "/journal")
		}
		keeper := exec.Command("nsenter", "--net="+lease+"/netns", "cat", "/proc/self/comm", "-")
		end := standin.Start(t, keeper)
		out, err := job.command(bed, state, "epilog", never).CombinedOutput()
		if err != nil && !(lost && strings.Contains(string(out), "journal damaged")) {
			t.Errorf("entry lost: %t: %v: %s", lost, err, out)
		}
		if links := bed.Run(fmt.Sprintf("nsenter --net=/proc/%d/ns/net ip -br link", keeper.Process.Pid)); strings.Contains(links, "@") {
			t.Errorf("entry lost: %t: the namespace still has\n%s", lost, links)
		}
		end()
		if !lost {
			testSame(t, bed, state, before)
		} else if diff := netnstest.Diff(before, testPicture(bed)); diff != "" || len(held(t, state)) != 1 {
			t.Errorf("the claims are %+v; before (-) and after (+):\n%s", held(t, state), diff)
		}
	}
}
