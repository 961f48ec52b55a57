package virtual_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"gresnet/lib/network/virtual"
	"gresnet/test/netnstest"
)

func TestNoTwoChildrenHaveOneIndexAndNoneLooksLikeAnothersInAJob(t *testing.T) {
	seen := map[int]string{}
	for _, place := range []int{0, 1, 2, 3, 4, 5, 31, 32, 63, 100} {
		for port := range uint32(8) {
			for _, slot := range []int{0, 1, 2, 127, 128, 254, 255} {
				index := virtual.ChildIndex(place, port, slot)
				who := fmt.Sprint(place, port, slot)
				if other, is := seen[index]; is {
					t.Errorf("%s and %s have index %#x", who, other, index)
				}
				seen[index] = who
				// Bit 24 is in the index of uplinks, and the next to the highest in that of overlays.
				if index <= 0 || index > 1<<31-1 || index&(virtual.UplinkBit|virtual.UplinkBit>>1|virtual.UplinkBit>>5) != virtual.UplinkBit|virtual.UplinkBit>>5 {
					t.Errorf("%s: index %#x", who, index)
				}
				if last := index & 0xff; last < 0x80 || last == 0xff {
					t.Errorf("%s: index %#x is not between the node's interfaces and the uplink in a list by its last eight bits", who, index)
				}
				if short := index & 0xffff; short < 1<<13 || short >= 1<<14 {
					t.Errorf("%s: index %#x is %d to a program that keeps 16 bits", who, index, short)
				}
			}
		}
	}
}

func TestAChildIsMadeInTheJobRaisedAndDeletedWhateverItsNameIsByThen(t *testing.T) {
	const kind = "macvlan" // ipvlans are made in the VM: kernels that run containers often lack them
	host, job := netnstest.New(t), netnstest.New(t)
	host.IP("link add eth2 mtu 4000 type veth peer name eth9")
	host.IP("link set eth2 up")
	host.Run("cd /proc/sys/net/ipv4/conf/eth2; echo 1 >arp_ignore; echo 2 >arp_announce")
	var arp virtual.ARP
	if err := host.Do(func() (err error) { arp, err = virtual.ReadARP("eth2"); return err }); err != nil {
		t.Fatal(err)
	}
	before := host.IP("-d link show eth2")
	var parent int
	if _, err := fmt.Sscan(host.Run("cat /sys/class/net/eth2/ifindex"), &parent); err != nil {
		t.Fatal(err)
	}

	var made []virtual.Child
	for slot := range 2 {
		c := virtual.Child{Kind: kind, Name: fmt.Sprintf("eth2_%d", slot), Index: virtual.ChildIndex(3, 1, slot)}
		c.Address = netip.MustParsePrefix(fmt.Sprintf("10.64.0.%d/16", 24+slot))
		c.MAC, c.ARP = virtual.ChildMAC("b8:59:9f:00:00:01", slot), arp
		made = append(made, c)
	}
	file, err := os.Open(job.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range made {
		err := host.Do(func() error { return virtual.MakeChild(c, parent, int(file.Fd())) })
		if err != nil {
			t.Fatal(err)
		}
		var has []netip.Addr
		err = job.Do(func() (err error) {
			has, err = virtual.RaiseChild(c)
			return err
		})
		if err != nil || len(has) == 0 || has[0] != c.Address.Addr() {
			t.Fatalf("it has %v, %v", has, err)
		}
	}
	if links := host.IP("link"); strings.Contains(links, "eth2_") {
		t.Errorf("the node has\n%s", links)
	}
	if has := job.Run("cd /proc/sys/net/ipv4/conf/eth2_1; cat arp_ignore arp_announce arp_filter"); has != "1\n2\n0\n" {
		t.Errorf("the job's interface answers for addresses by %q", has)
	}
	links := job.IP("-d link")
	if strings.Count(links, "mtu 4000") != 2 || strings.Count(links, kind+" ") < 2 {
		t.Errorf("the job has\n%s", links)
	}
	err = host.Do(func() error {
		return virtual.MakeChild(virtual.Child{Kind: "ipvlan", Name: "odd0", Index: virtual.ChildIndex(3, 1, 9)}, parent, int(file.Fd()))
	})
	if err == nil {
		t.Error("an ipvlan beside them was made")
	}
	job.IP("link set eth2_0 name mine0")
	remove := func() error { return virtual.DeleteChild(kind, made[0].Index) }
	if err := job.Do(remove); err != nil {
		t.Fatal(err)
	}
	if err := job.Do(remove); !errors.Is(err, virtual.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	job.IP("link add keep0 type veth peer name keep1")
	if err := job.Do(virtual.DeleteChildren); err != nil {
		t.Fatal(err)
	}
	if links := job.IP("-br link"); strings.Contains(links, "eth2") || !strings.Contains(links, "keep0") {
		t.Errorf("left are\n%s", links)
	}
	if after := host.IP("-d link show eth2"); after != before {
		t.Errorf("the parent was\n%s and is\n%s", before, after)
	}
}
