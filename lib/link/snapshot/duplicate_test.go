package snapshot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// duplicates are the addresses of hca0 that the kernel does not use.
const duplicates = `ip -6 -o addr show dev hca0 dadfailed | awk '{print $4}'`

// awaitDAD waits until nothing of the namespace is tested any more.
const awaitDAD = `while ip -6 addr show tentative -dadfailed | grep -q inet6; do sleep 0.02; done; `

// withDuplicate gives hca0 an address that its peer has, too, beside one of its own.
// hca0 asks for it many times: the peer's answer is lost while the kernel has not yet
// activated the peer's queue after a carrier, which takes it up to a second.
func withDuplicate(t *testing.T) *bed {
	b := newBed(t)
	b.far.Run("sysctl -qw net.ipv6.conf.far0.accept_dad=0; ip -6 addr add fd00::2/64 dev far0 nodad")
	b.node.Run("sysctl -qw net.ipv6.conf.hca0.accept_dad=1 net.ipv6.conf.hca0.forwarding=1 net.ipv6.conf.hca0.dad_transmits=15 net.ipv6.neigh.hca0.retrans_time_ms=200; ip link set hca0 up; ip -6 addr add fd00::3/64 dev hca0 nodad; ip -6 addr add fd00::2/64 dev hca0; sleep 0.1")
	if got := b.node.Run(awaitDAD + duplicates); got != "fd00::2/64\n" {
		t.Fatalf("duplicates are %q", got)
	}
	return b
}

func TestADuplicateIsTestedAgainOnTheNodeAndNoJobHasIt(t *testing.T) {
	netnstest.Slow(t)
	for name, free := range map[string]bool{"whose other is there still": false, "whose other is gone": true} {
		t.Run(name, func(t *testing.T) {
			b := withDuplicate(t)
			before := picture(b.node)
			s := throughJSON(t, b.take(t))
			in(t, b.job, func(c *snapshot.Conn) error {
				i := find(t, c, "hca0")
				if err := apply(c, i.Index, s, snapshot.InJob); err != nil {
					return err
				}
				if got := b.job.Run("ip -6 addr show dev hca0"); strings.Contains(got, "fd00::2/") || !strings.Contains(got, "fd00::3/") {
					t.Errorf("the job has\n%s", got)
				}
				return c.Move(i.Index, b.node.FD(), "hca0", false)
			})
			if free {
				b.far.Run("ip -6 addr del fd00::2/64 dev far0")
			}
			in(t, b.node, func(c *snapshot.Conn) error {
				i := find(t, c, "hca0")
				begun := time.Now()
				for range 2 { // the second while it is tested
					if err := apply(c, i.Index, s, snapshot.Settled); err != nil {
						return err
					}
					if diff, err := c.Differences(i.Index, s); err != nil || len(diff) > 0 {
						t.Errorf("while it is tested: %q, %v", diff, err)
					}
				}
				// The test takes three seconds, and a slow machine may take one for the rest.
				if took := time.Since(begun); took > time.Second && b.node.Run("ip -6 addr show dev hca0 tentative -dadfailed") == "" {
					t.Errorf("it was waited for, %s", took)
				}
				b.node.Run(awaitDAD)
				diff, err := c.Differences(i.Index, s)
				if len(diff) > 0 {
					t.Errorf("when it was tested: %q", diff)
				}
				return err
			})
			if got := b.node.Run(duplicates); (got == "") != free {
				t.Errorf("duplicates are %q", got)
			}
			// Which of two addresses came first is seen of either only.
			if diff := netnstest.Diff(sorted(before), sorted(picture(b.node))); diff != "" && !free {
				t.Errorf("before (-) and after (+):\n%s", diff)
			}
			b.node.Run("ip -6 addr del fd00::2/64 dev hca0")
			in(t, b.node, func(c *snapshot.Conn) error {
				diff, err := c.Differences(find(t, c, "hca0").Index, s)
				if !slices.Contains(diff, "address fd00::2/64 is missing") {
					t.Errorf("when it is gone: %q", diff)
				}
				return err
			})
		})
	}
}

func TestAnAddressThatIsADuplicateByNowIsADifference(t *testing.T) {
	b := withDuplicate(t)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		s, err := c.Settings(i.Index)
		if err != nil {
			return err
		}
		s.Addresses, s.Duplicates = append(s.Addresses, s.Duplicates...), nil
		diff, err := c.Differences(i.Index, s)
		if want := "address fd00::2/64 is another's, too (dadfailed), was not"; !slices.Equal(diff, []string{want}) {
			t.Errorf("differences are %q, wanted %q", diff, want)
		}
		return err
	})
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
