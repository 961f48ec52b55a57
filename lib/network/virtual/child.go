package virtual

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// Child is an interface in a job's namespace that stands on an interface of the node, which other
// jobs have children of, too.
type Child struct {
	Kind    string           // macvlan, ipvlan or IPoIB
	Name    string           // in the job, when it is made
	Index   int              // in the job, where no other interface can have so high a one
	MAC     net.HardwareAddr // an ipvlan has its parent's, and the kernel makes that of IPoIB
	Address netip.Prefix     // invalid: none
	PKey    node.PKey        // of IPoIB
	ARP     ARP              // of a macvlan and an ipvlan
}

// ARP has the settings by which an interface answers for addresses, by sysctl. A site whose HCAs are in
// one network sets them, or one HCA's interface answers for another's address.
type ARP map[string]string

// ReadARP returns what an interface of the calling thread's namespace has.
func ReadARP(name string) (ARP, error) {
	arp := ARP{}
	for _, key := range []string{"arp_announce", "arp_filter", "arp_ignore"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", name, key))
		if err != nil {
			return nil, fmt.Errorf("read how %s answers for addresses: %w", name, err)
		}
		arp[key] = string(value)
	}
	return arp, nil
}

// IPoIB is the kernel's word for the kind of interfaces of InfiniBand.
const IPoIB = "ipoib"

// childBit is set in the index of children, beside UplinkBit, and of no other interface.
const childBit = UplinkBit >> 5

// Bounds of what ChildIndex takes.
const (
	mostSlots = 256 // of an HCA
	mostPorts = 8
)

// ChildIndex returns the index of the child that a slot has of an HCA's port. No two children of a
// node have the same, whatever names their jobs give them. place is the HCA's in the node table.
// Open MPI keeps 16 bits of an index (opal/mca/if/if.h:opal_if_t), and takes two interfaces with the
// same 16 bits for one. So bit 13 is set, unlike in the kernel's small indices, and bits 14 and 15
// are not, unlike in uplinks' and overlays' indices. Linux 6.1 lists interfaces by the last eight bits:
// a child comes after the interface with the node's address, and before uplink0. Bit 26 was not set by
// older prologs, whose children the node may still have.
func ChildIndex(place int, port uint32, slot int) int {
	rest := place>>6<<11 | slot%mostSlots*mostPorts | int(port%mostPorts)
	short := 1<<13 | rest&0x1f<<8 | 0x80 | place&0x3f
	return UplinkBit | childBit | 1<<26 | rest>>14&3<<27 | rest>>5&0x1ff<<16 | short
}

// ChildMAC returns the MAC for a slot's child of an interface. It is the same for each job that has
// the slot, and locally administered.
func ChildMAC(parent string, slot int) net.HardwareAddr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", parent, slot))
	return append(net.HardwareAddr{0x12}, sum[:5]...)
}

// MakeChild makes a child of an interface in the namespace behind a file descriptor. One message
// makes all of it, so it never is in the calling thread's namespace.
func MakeChild(c Child, parent, nsfd int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.HardwareAddr = c.Name, c.Index, c.MAC
	attrs.ParentIndex, attrs.Namespace = parent, netlink.NsFd(nsfd)
	// These modes let jobs of one node reach each other, as jobs of different nodes do.
	var link netlink.Link = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	switch c.Kind {
	case "ipvlan":
		link = &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}
	case IPoIB:
		// The kernel sets connected mode safely only when the interface is made.
		link = &netlink.IPoIB{LinkAttrs: attrs, Pkey: uint16(c.PKey), Mode: netlink.IPOIB_MODE_DATAGRAM}
	}
	if c.Kind == IPoIB {
		// The end of an earlier job's namespace may have returned one that no epilog found.
		if err := DeleteChild(IPoIB, c.Index); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	err := refused(netlink.LinkAdd(link), c.Kind)
	if err != nil {
		err = fmt.Errorf("make the %s %s: %w", c.Kind, c.Name, err)
	}
	if errors.Is(err, unix.EBUSY) {
		return hint.With(err, "GN349 the interface below it may be a port of a bridge or a bond, or carry interfaces of another kind")
	}
	return err
}

// RaiseChild gives a child its address and brings it up. No router gives it addresses that nobody
// asked for. RaiseChild returns the addresses that the child then has.
func RaiseChild(c Child) ([]netip.Addr, error) {
	if err := set(c.Name, "ipv6", "accept_ra", "0"); err != nil {
		return nil, err
	}
	for key, value := range c.ARP { // it answers for addresses as the interface below it
		if err := set(c.Name, "ipv4", key, value); err != nil {
			return nil, err
		}
	}
	if c.Kind == IPoIB {
		// By itself the kernel makes an address of the port's GUID, which all children of a port have.
		const random = "3" // IN6_ADDR_GEN_MODE_RANDOM
		if err := set(c.Name, "ipv6", "addr_gen_mode", random); err != nil {
			return nil, err
		}
	}
	if c.Address.IsValid() {
		if err := setAddress(c.Index, c.Address, none, 0); err != nil {
			return nil, err
		}
	}
	if err := netlink.LinkSetUp(byIndex(c.Index)); err != nil {
		err = fmt.Errorf("bring up %s: %w", c.Name, err)
		return nil, hint.With(err, "GN350 another interface on the same network may have its MAC or its address")
	}
	list, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(byIndex(c.Index), netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", c.Name, err)
	}
	var all []netip.Addr
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			all = append(all, addr.Unmap())
		}
	}
	return all, nil
}

// DeleteChild deletes a child, whatever its name is by now, or returns ErrNotFound.
func DeleteChild(kind string, index int) error {
	i, err := find(index)
	if err != nil {
		return err
	}
	if i.Type() != kind {
		return fmt.Errorf("interface %d: %w", index, ErrNotFound)
	}
	return remove(i)
}

// DeleteChildren deletes all children that the namespace has.
func DeleteChildren() error {
	list, err := whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range list {
		kind, index := i.Type(), i.Attrs().Index
		if (kind == "macvlan" || kind == "ipvlan" || kind == IPoIB) && index&(UplinkBit|UplinkBit>>1|childBit) == UplinkBit|childBit {
			if err := remove(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole asks for a list again if something changed while the kernel listed it, as it does where other
// interfaces just come up.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	const tries = 100
	for range tries {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
