package link_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"gresnet/lib/link"
	"gresnet/test/netnstest"
)

func TestNoTwoUplinksHaveOneIndexAndNoneLooksLikeAnothersInAJob(t *testing.T) {
	seen := map[int]string{}
	for _, address := range []string{
		"10.0.0.1", "10.0.0.2", "10.0.63.255", "10.0.64.0", "10.0.64.2", "10.0.128.2", "10.0.192.2", "10.1.0.2", "10.63.255.255",
		"192.168.0.3", "198.19.15.255",
	} {
		index := link.UplinkOf("veth", "job7", netip.MustParseAddr(address)).Index
		if other, is := seen[index]; is {
			t.Errorf("%s and %s have index %#x", address, other, index)
		}
		seen[index] = address
		if index <= 0 || index > 1<<31-1 || index&link.UplinkBit == 0 || index&(link.UplinkBit>>1) != 0 {
			t.Errorf("%s: index %#x", address, index)
		}
		// The kernel counts up from 1, and an overlay has more.
		if short := index & 0xffff; short < 1<<14 || short >= 1<<15 {
			t.Errorf("%s: index %#x is %d to a program that keeps 16 bits", address, index, short)
		}
	}
}

func TestAnUplinkThatHasItsFormerIndexIsDeletedAndNoOther(t *testing.T) {
	ns := netnstest.New(t)
	// 10.0.64.9 is one of which the former index looks most like another's.
	u := link.UplinkOf("veth", "job7", netip.MustParseAddr("10.0.64.9"))
	other := link.UplinkOf("veth", "job8", netip.MustParseAddr("10.0.0.9"))
	ns.IP(fmt.Sprintf("link add job7 index %d type veth peer name far7", link.UplinkBit|64<<8|9))
	ns.IP(fmt.Sprintf("link add job8 index %d type veth peer name far8", other.Index))
	in(t, ns, func(c *link.Conn) error {
		for _, want := range []error{nil, link.ErrNotFound} {
			if err := c.DeleteUplink(u); !errors.Is(err, want) {
				t.Errorf("delete it: %v, wanted %v", err, want)
			}
		}
		if i, err := c.FindUplink(other); err != nil || i.Name != "job8" {
			t.Errorf("the other one is %q, %v", i.Name, err)
		}
		return nil
	})
}
