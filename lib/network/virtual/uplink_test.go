package virtual_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/network/virtual"
	"gresnet/test/netnstest"
)

func TestNoTwoUplinksHaveOneIndexAndNoneLooksLikeAnothersInAJob(t *testing.T) {
	seen := map[int]string{}
	for _, address := range []string{
		"10.0.0.1", "10.0.0.2", "10.0.63.255", "10.0.64.0", "10.0.64.2", "10.0.128.2", "10.0.192.2", "10.1.0.2", "10.63.255.255",
		"192.168.0.3", "198.19.15.255",
	} {
		index := virtual.UplinkOf("veth", "job7", netip.MustParseAddr(address)).Index
		if other, is := seen[index]; is {
			t.Errorf("%s and %s have index %#x", address, other, index)
		}
		seen[index] = address
		if index <= 0 || index > 1<<31-1 || index&virtual.UplinkBit == 0 || index&(virtual.UplinkBit>>1) != 0 {
			t.Errorf("%s: index %#x", address, index)
		}
		// The kernel counts up from 1, and an overlay has more.
		if short := index & 0xffff; short < 1<<14 || short >= 1<<15 {
			t.Errorf("%s: index %#x is %d to a program that keeps 16 bits", address, index, short)
		}
	}
}

// Linux 6.1 lists interfaces by the last eight bits of their index, and those of equal bits in any order.
func TestAVethIsAfterAllOtherInterfacesInAJobsLists(t *testing.T) {
	for _, address := range []string{"198.19.0.1", "198.19.0.2", "198.19.1.0", "198.19.15.255"} {
		u := virtual.UplinkOf("veth", "job7", netip.MustParseAddr(address))
		short := u.Place & 0xffff
		if u.Place <= virtual.UplinkBit || u.Place > 1<<31-1 || u.Place&0xff != 0xff || short < 1<<14 || short >= 1<<15 {
			t.Errorf("%s: index %#x in the job", address, u.Place)
		}
	}
}

func TestAnUplinkIsDeletedAndNoOther(t *testing.T) {
	ns := netnstest.New(t)
	u := virtual.UplinkOf("veth", "job7", netip.MustParseAddr("10.0.64.9"))
	other := virtual.UplinkOf("veth", "job8", netip.MustParseAddr("10.0.0.9"))
	ns.IP(fmt.Sprintf("link add job7 index %d type veth peer name far7", u.Index))
	ns.IP(fmt.Sprintf("link add job8 index %d type veth peer name far8", other.Index))
	within(t, ns, func() error {
		for _, want := range []error{nil, virtual.ErrNotFound} {
			if err := virtual.DeleteUplink(u); !errors.Is(err, want) {
				t.Errorf("delete it: %v, wanted %v", err, want)
			}
		}
		if name, err := virtual.NameOf(other); err != nil || name != "job8" {
			t.Errorf("the other one is %q, %v", name, err)
		}
		return nil
	})
}

func within(t *testing.T, ns *netnstest.NS, f func() error) {
	t.Helper()
	if err := ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

func TestAnUplinkOfEachKindIsMadeInTheJobWithItsIndexAndMACAndLeadsOut(t *testing.T) {
	address, gateway := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.1")
	for _, kind := range []string{virtual.Veth, virtual.Macvlan} {
		node, job := netnstest.New(t), netnstest.New(t)
		node.IP("link add mgmt0 type veth peer name far1")
		parent := strings.TrimSpace(node.Run("cat /sys/class/net/mgmt0/ifindex"))
		index, err := strconv.Atoi(parent)
		if err != nil {
			t.Fatal(err)
		}
		if kind == "veth" {
			index = 0
		}
		u := virtual.UplinkOf(kind, "job7", address)
		u.Name = "up0"
		within(t, node, func() error { return virtual.MakeUplink(u, index, job.FD()) })
		within(t, job, func() error {
			if err := virtual.Give(u.Place, netip.PrefixFrom(address, 24)); err != nil {
				return err
			}
			if err := virtual.SetMTU(u.Place, 1400); err != nil {
				return err
			}
			if err := (virtual.Route{To: netip.MustParsePrefix("10.9.0.0/16"), From: address, Metric: 5}).Add(u.Place); err != nil {
				return err
			}
			return virtual.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Gateway: gateway, Metric: 7}.Add(u.Place)
		})
		got := job.IP("-o link show up0") + job.IP("-o -4 addr show up0") + job.IP("-4 route show dev up0")
		for _, want := range []string{
			fmt.Sprint(u.Place, ": up0@"), "mtu 1400", "06:67:0a:00:00:09", "inet 10.0.0.9/24 scope global",
			"10.9.0.0/16 proto static scope link src 10.0.0.9 metric 5", "default via 10.0.0.1 proto static metric 7",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("a %s has no %q:\n%s", kind, want, got)
			}
		}
		if kind == "veth" {
			if host := node.IP("-o link show job7"); !strings.Contains(host, fmt.Sprint(u.Index, ": ")) || !strings.Contains(host, "0a:67:0a:00:00:09") {
				t.Errorf("the node's end: %s", host)
			}
		}
	}
}

func TestTheNodeForwardsByItsEndOfAVethAndByNoOtherInterface(t *testing.T) {
	ns := netnstest.New(t)
	u := virtual.UplinkOf("veth", "job7", netip.MustParseAddr("10.0.64.9"))
	ns.IP(fmt.Sprintf("link add job7 index %d type veth peer name far7", u.Index))
	const settings = "for i in all default lo far7; do cat /proc/sys/net/ipv4/conf/$i/forwarding; done; grep -v '^0$' /proc/sys/net/ipv4/conf/job7/* | sort"
	before := ns.Run(settings)
	within(t, ns, func() error { return virtual.Forward(u) })
	got := ns.Run(settings)
	if got = strings.Replace(got, "/proc/sys/net/ipv4/conf/job7/forwarding:1\n", "", 1); got != before {
		t.Errorf("before\n%s\nafter\n%s", before, got)
	}
	if on := ns.Run("cat /proc/sys/net/ipv4/conf/job7/forwarding"); on != "1\n" {
		t.Errorf("forwarding is %q", on)
	}
	ns.IP("link del job7")
	within(t, ns, func() error {
		if err := virtual.Forward(u); !errors.Is(err, unix.ENODEV) {
			t.Errorf("of one that is gone: %v", err)
		}
		return nil
	})
}
