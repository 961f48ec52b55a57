package virtual

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/netnstest"
)

// More than one call of the kernel takes.
func TestManyNeighboursAreMadeAtOnceAndTheFirstRefusalIsTold(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add job0 index 77 type vxlan id 7 local 127.0.0.1 dstport 489 nolearning")
	ns.IP("link set job0 up")
	const index, pairs, wrong = 77, 300, 431
	requests := func(first int) (all [][]byte) {
		for i := range pairs {
			inside := netip.AddrFrom4([4]byte{198, 18, byte(first), byte(i % 250)})
			if i >= 250 {
				inside = netip.AddrFrom4([4]byte{198, 18, byte(first + 1), byte(i % 250)})
			}
			mac := net.HardwareAddr{2, 0, 0, byte(first), byte(i >> 8), byte(i)}
			all = append(all, device(index, mac, netip.MustParseAddr("10.0.0.1")), permanent(index, inside, mac))
		}
		return all
	}
	send := func(all [][]byte) (refused int, err error) {
		failed := ns.Do(func() error {
			r, err2 := netlink.OpenRoute()
			if err2 != nil {
				return err2
			}
			defer r.Close()
			refused, err = r.SendAll(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, all)
			if err == nil && r.Asked() != len(all) {
				err = fmt.Errorf("it made %d requests of %d", r.Asked(), len(all))
			}
			return nil
		})
		if failed != nil {
			t.Fatal(failed)
		}
		return refused, err
	}
	if refused, err := send(requests(0)); err != nil {
		t.Fatalf("request %d: %v", refused, err)
	}
	neighbours, devices := ns.Run("ip -4 neigh show nud permanent dev job0"), ns.Run("bridge fdb show dev job0")
	if n, m := strings.Count(neighbours, " PERMANENT"), strings.Count(devices, " dst 10.0.0.1 self permanent"); n != pairs || m != pairs {
		t.Errorf("%d neighbours and %d devices of %d:\n%s%s", n, m, pairs, neighbours, devices)
	}
	if want := "198.18.1.49 lladdr 02:00:00:00:01:2b PERMANENT"; !strings.Contains(neighbours, want) {
		t.Errorf("wanted %q:\n%s", want, neighbours)
	}
	all := requests(10)
	all[wrong] = permanent(index+1, netip.MustParseAddr("198.18.0.1"), net.HardwareAddr{2, 0, 0, 0, 0, 1})
	all[wrong+10] = all[wrong]
	if refused, err := send(all); refused != wrong || !errors.Is(err, unix.ENODEV) {
		t.Errorf("refused is %d, %v; wanted %d, %v", refused, err, wrong, unix.ENODEV)
	}
}
