package snapshot

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/link"
	"gresnet/lib/link/address"
	"gresnet/lib/link/route"
)

// linkLocals are what Linux 6.1 gave interfaces of these addresses.
const (
	mac, ofMAC         = "7a:9a:0d:fe:71:7e", "fe80::789a:dff:fefe:717e"
	otherMAC, ofOther  = "02:00:00:00:00:99", "fe80::ff:fe00:99"
	ipoib              = "80:00:00:11:fe:80:00:00:00:00:00:00:00:02:c9:03:00:ab:cd:ef"
	ofIPoIB            = "fe80::202:c903:ab:cdef"
	otherGUID, ofGUID  = "ba83:9c21:220e:f0cf", "fe80::ba83:9c21:220e:f0cf"
	global, gatewayOfX = "fd00:1::2", "fe80::1"
)

func TestALinkLocalAddressFollowsFromTheAddressOfTheJobAndNothingElseDoes(t *testing.T) {
	for _, c := range []struct {
		had     string
		wants   sriov.Address
		is, was string
	}{
		{mac, sriov.Address{MAC: otherMAC}, ofOther, ofMAC},
		{ipoib, sriov.Address{Node: otherGUID, Port: otherGUID}, ofGUID, ofIPoIB},
	} {
		s := Settings{Own: link.Own{MAC: c.had}}
		for _, a := range []string{global, c.was, gatewayOfX} {
			addr := netip.MustParseAddr(a)
			s.Addresses = append(s.Addresses, address.Address(netlink.Append(make([]byte, unix.SizeofIfAddrmsg), unix.IFA_ADDRESS, addr.AsSlice())))
			s.Routes = append(s.Routes, route.Route(netlink.Append(make([]byte, unix.SizeofRtMsg), unix.RTA_DST, addr.AsSlice())))
		}
		got := s.Readdressed(c.wants)
		for i, want := range []string{global, c.is, gatewayOfX} {
			if is := got.Addresses[i].Addr().Addr(); is != netip.MustParseAddr(want) {
				t.Errorf("of %s, which becomes %s, address %d is %s, want %s", c.had, c.wants, i, is, want)
			}
			if is := got.Routes[i].Destination(); is != netip.MustParseAddr(want) {
				t.Errorf("of %s, which becomes %s, route %d goes to %s, want %s", c.had, c.wants, i, is, want)
			}
		}
		if s.Addresses[1].Addr().Addr() != netip.MustParseAddr(c.was) || c.wants.MAC != "" && got.MAC != c.wants.MAC {
			t.Errorf("of %s the settings have %s, and the job's %s", c.had, s.Addresses[1].Addr(), got.MAC)
		}
	}
}
