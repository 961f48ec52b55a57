package snapshot_test

import (
	"context"
	"slices"
	"testing"

	"gresnet/lib/base/poll"
	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

// impatient returns a run whose time is over: it waits for no carrier.
func impatient() *poll.Budget {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &poll.Budget{Context: ctx}
}

// unplugged takes the interface's settings and lets it go and come back, while
// its peer goes down.
func unplugged(t *testing.T, b *bed) (s snapshot.Settings) {
	t.Helper()
	in(t, b.node, func(c *snapshot.Conn) (err error) {
		i := find(t, c, "hca0")
		if s, err = c.Settings(i.Index); err != nil {
			return err
		}
		if err := c.DownChildren(i.Index); err != nil {
			return err
		}
		return c.Move(i.Index, b.job.FD(), "hca0", true)
	})
	b.far.Run("ip link set far0 down")
	in(t, b.job, func(c *snapshot.Conn) error { return c.Move(find(t, c, "hca0").Index, b.node.FD(), "hca0", false) })
	return s
}

// Addresses that the kernel wants to test, where it does so on all interfaces.
const tested = `sysctl -qw net.ipv6.conf.hca0.accept_dad=1 net.ipv6.conf.all.accept_dad=1; ip link set hca0 up
ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd00::2/64 dev hca0; ip -6 addr add fd01::2/64 dev hca0 nodad
`

func TestAnInterfaceWithoutTheCarrierThatItHadHasAllElse(t *testing.T) {
	for name, setup := range map[string]string{
		"addresses": tested,
		"a node that forwards": `sysctl -qw net.ipv6.conf.hca0.forwarding=1
` + tested,
		"routes that are dead without": `sysctl -qw net.ipv4.conf.hca0.ignore_routes_with_linkdown=1 net.ipv6.conf.hca0.ignore_routes_with_linkdown=1
` + tested + `ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0; ip -6 route add fd09::/64 via fd00::1 dev hca0
ip route add 10.10.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.0.0.3 dev hca0 weight 3
ip -6 route add fd10::/64 nexthop via fd00::1 dev hca0 nexthop via fd00::3 dev hca0 weight 4`,
		"routes from its addresses": tested + `while ip -6 addr | grep -q tentative; do sleep 0.02; done
ip route add 10.9.0.0/16 via 10.0.0.1 src 10.0.0.2 dev hca0; ip -6 route add fd09::/64 via fd00::1 src fd00::2 dev hca0`,
		"a macvlan": tested + `ip link add mv0 link hca0 type macvlan mode bridge; ip link set mv0 up; ip addr add 10.5.0.2/24 dev mv0; ip -6 addr add fd05::2/64 dev mv0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the tests for duplicates take their time
			b := newBed(t)
			b.node.Run(setup)
			settle(b.node)
			s := unplugged(t, b)
			in(t, b.node, func(c *snapshot.Conn) error {
				c.Budget = impatient()
				return restored(t, c, s)
			})
		})
	}
}

// restored restores hca0, and fails the test unless all is as it was.
func restored(t *testing.T, c *snapshot.Conn, s snapshot.Settings) error {
	t.Helper()
	i := find(t, c, "hca0").Index
	if err := apply(c, i, s, snapshot.Settled); err != nil {
		return err
	}
	return same(t, c, s)
}

func same(t *testing.T, c *snapshot.Conn, s snapshot.Settings) error {
	t.Helper()
	diff, err := c.Differences(find(t, c, "hca0").Index, s)
	if len(diff) > 0 {
		t.Errorf("Differences: %q", diff)
	}
	return err
}

func TestAnAddressThatIsTestedOnlyWhenTheCarrierIsBackIsNoDifference(t *testing.T) {
	b := newBed(t)
	b.node.Run("sysctl -qw net.ipv6.conf.hca0.forwarding=1\n" + tested)
	settle(b.node)
	b.node.Run("ip -6 addr flush dev hca0 scope link")
	s := unplugged(t, b)
	in(t, b.node, func(c *snapshot.Conn) error {
		c.Budget = impatient()
		i := find(t, c, "hca0").Index
		if err := apply(c, i, s, snapshot.Managed); err != nil {
			return err
		}
		// A manager knows nothing of a test before.
		b.node.Run(`sysctl -qw net.ipv6.conf.hca0.accept_dad=1
ip addr add 10.0.0.2/24 dev hca0; ip -6 addr add fd01::2/64 dev hca0 nodad; ip -6 addr add fd00::2/64 dev hca0`)
		if b.node.Run("ip -6 addr show dev hca0 tentative") == "" {
			t.Fatal("no address waits for its test")
		}
		agreed, diff, err := c.AcceptManaged(i, s)
		if err != nil || len(diff) > 0 {
			t.Errorf("what the manager gives differs by %q", diff)
		}
		if err := same(t, c, agreed); err != nil {
			return err
		}
		return same(t, c, s)
	})
}

func TestARouteThatNoAddressBringsIsMissedWithoutACarrier(t *testing.T) {
	b := newBed(t)
	b.node.Run(tested + "ip -6 route add fd09::/64 via fd00::1 dev hca0")
	settle(b.node)
	s := unplugged(t, b)
	in(t, b.node, func(c *snapshot.Conn) error {
		c.Budget = impatient()
		if err := restored(t, c, s); err != nil {
			return err
		}
		b.node.Run("ip -6 route del fd09::/64; ip -6 addr del fd01::2/64 dev hca0")
		diff, err := c.Differences(find(t, c, "hca0").Index, s)
		for _, want := range []string{"route fd09::/64 via fd00::1 is missing", "address fd01::2/64 is missing", "route fd01::2/128 table 255 is missing"} {
			if !slices.Contains(diff, want) {
				t.Errorf("%q lack %q", diff, want)
			}
		}
		return err
	})
}

func TestACarrierThatIsLateIsWaitedFor(t *testing.T) {
	netnstest.Slow(t)
	b := newBed(t)
	b.node.Run(tested + `ip link add mv0 link hca0 type macvlan mode bridge; ip link set mv0 up; ip -6 addr add fd05::2/64 dev mv0`)
	settle(b.node)
	before := picture(b.node)
	s := unplugged(t, b)
	trained := make(chan bool)
	go func() {
		defer close(trained)
		b.far.Run("sleep 0.3; ip link set far0 up")
	}()
	in(t, b.node, func(c *snapshot.Conn) error {
		c.Budget = new(poll.Budget)
		if err := restored(t, c, s); err != nil {
			return err
		}
		if i := find(t, c, "hca0"); !i.Running || c.Budget.Waits(poll.Carrier.Of(i.ID)) {
			t.Error("it was not waited for")
		}
		return nil
	})
	<-trained
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}

func TestACarrierThatComesAfterTheSettingsChangesNothing(t *testing.T) {
	b := newBed(t)
	b.node.Run(tested + `ip link add mv0 link hca0 type macvlan mode bridge; ip link set mv0 up; ip -6 addr add fd05::2/64 dev mv0`)
	settle(b.node)
	before := picture(b.node)
	s := unplugged(t, b)
	in(t, b.node, func(c *snapshot.Conn) error {
		c.Budget = impatient()
		if err := restored(t, c, s); err != nil {
			return err
		}
		i := find(t, c, "hca0")
		if !c.Budget.Waits(poll.Carrier.Of(i.ID)) {
			t.Error("the carrier is not missed")
		}
		c.Budget.Context = nil
		trained := make(chan bool)
		go func() {
			defer close(trained)
			b.far.Run("sleep 0.3; ip link set far0 up")
		}()
		if err := c.AwaitLate(i.Index, s); err != nil {
			return err
		}
		<-trained
		if i := find(t, c, "hca0"); !i.Running || c.Budget.Waits(poll.Carrier.Of(i.ID)) {
			t.Error("it was not waited for")
		}
		return same(t, c, s)
	})
	if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
		t.Errorf("before (-) and after (+):\n%s", diff)
	}
}
