package part

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/link/inet"
)

// given returns an address as the kernel's message has it.
func given(prefix string) inet.Address {
	p := netip.MustParsePrefix(prefix)
	family := byte(unix.AF_INET6)
	if p.Addr().Is4() {
		family = unix.AF_INET
	}
	m := make([]byte, unix.SizeofIfAddrmsg)
	m[0], m[1] = family, byte(p.Bits())
	b := p.Addr().AsSlice()
	m = append(m, byte(4+len(b)), 0, unix.IFA_ADDRESS, 0)
	return append(m, b...)
}

func TestASlotsAddressFollowsFromThatOfItsHCAsInterface(t *testing.T) {
	for _, c := range []struct {
		own     []string
		network string
		of, n   int
		want    string
	}{
		{[]string{"10.1.0.17/24"}, "10.64.0.0/16", 8, 3, "10.64.0.139/16"},
		{[]string{"fd00::1/64", "169.254.7.7/16", "10.1.0.17/24", "10.1.0.18/24"}, "10.64.0.0/16", 8, 3, "10.64.0.139/16"},
		{[]string{"10.1.2.3/16"}, "10.64.0.0/16", 64, 63, "10.64.128.255/16"}, // 515 * 64 + 63
		{[]string{"10.1.255.254/16"}, "10.64.0.0/12", 16, 15, "10.79.255.239/12"},
		{[]string{"10.1.0.1/24"}, "10.64.0.0/28", 7, 7 - 1, "10.64.0.13/28"},
		{[]string{"10.1.0.2/24"}, "10.64.0.0/28", 8, 0, ""}, // the broadcast address comes too near
		{[]string{"10.1.0.40/24"}, "10.64.0.0/24", 8, 0, ""},
		{[]string{"fd00::1/64"}, "10.64.0.0/16", 8, 0, ""},
		{nil, "10.64.0.0/16", 8, 0, ""},
	} {
		var list []inet.Address
		for _, a := range c.own {
			list = append(list, given(a))
		}
		got, err := slotAddress("eth2", list, netip.MustParsePrefix(c.network), gres.Slot{Number: c.n, Of: c.of})
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("slot %d of %d of %s by %v: got %s, %v, want %q", c.n, c.of, c.network, c.own, got, err, c.want)
		}
	}
}

func TestSlotsWhoseGIDsDoNotFitIntoAPortsTableAreRefused(t *testing.T) {
	for _, c := range []struct {
		length, kinds         int
		own, addresses, slots int
		fit                   bool
	}{
		{64, 2, 2, 2, 15, true},
		{64, 2, 2, 2, 16, false},
		{64, 2, 3, 2, 15, false},
		{64, 2, 2, 1, 30, true},
		{64, 2, 0, 1, 31, true},
		{64, 1, 2, 2, 31, true},
		{2, 2, 2, 0, 99, true},
		{64, 0, 2, 2, 99, true},
		{2, 2, 2, 1, 1, false},
	} {
		if err := fits("mlx5_0 port 1", sysfs.GIDTable{Length: c.length, Kinds: c.kinds}, c.own, c.addresses, c.slots); (err == nil) != c.fit {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestNoTwoSlotsOfANetworkHaveOneAddress(t *testing.T) {
	seen := map[netip.Addr]string{}
	for _, own := range []string{"10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24", "10.1.0.200/24"} {
		for n := range 8 {
			a, err := slotAddress("eth2", []inet.Address{given(own)}, netip.MustParsePrefix("10.64.0.0/16"), gres.Slot{Number: n, Of: 8})
			if other, twice := seen[a.Addr()]; err != nil || twice {
				t.Fatalf("slot %d of %s: %s is %s's, %v", n, own, a, other, err)
			}
			seen[a.Addr()] = own
		}
	}
}
