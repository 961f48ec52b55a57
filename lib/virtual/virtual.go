// Package virtual makes a job's uplink and overlay, the interfaces that it has beside those of its
// HCAs, and gives them addresses and routes. It acts in the calling thread's network namespace.
package virtual

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNotFound means that the namespace does not have the interface.
var ErrNotFound = errors.New("no such network interface")

// Give gives an interface an address with a peer, which may be the address itself, and brings it
// up.
func Give(index int, address netip.Prefix, peer netip.Addr) error {
	if err := setAddress(index, address, peer); err != nil {
		return err
	}
	return Open(index)
}

// GiveLoopback gives an address to the loopback interface.
func GiveLoopback(a netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("read interface lo: %w", err)
	}
	return setAddress(lo.Attrs().Index, netip.PrefixFrom(a, a.BitLen()), a)
}

func setAddress(index int, address netip.Prefix, peer netip.Addr) error {
	mask := net.CIDRMask(address.Bits(), address.Addr().BitLen())
	err := netlink.AddrReplace(byIndex(index), &netlink.Addr{
		IPNet:     &net.IPNet{IP: address.Addr().AsSlice(), Mask: mask},
		Peer:      &net.IPNet{IP: peer.AsSlice(), Mask: mask},
		Broadcast: net.IPv4zero, // none
	})
	if err != nil {
		return fmt.Errorf("give interface %d the address %s: %w", index, address, err)
	}
	return nil
}

// Open switches IPv6 off on an interface and brings it up. With IPv6, a router on the network would
// give it addresses and routes that nobody asked for.
func Open(index int) error {
	i, err := find(index)
	if err != nil {
		return err
	}
	name := i.Attrs().Name
	off := filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6")
	if err := os.WriteFile(off, []byte("1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("switch IPv6 off on %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(i); err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// Narrow lowers the MTU of an interface, if it is higher.
func Narrow(index, mtu int) error {
	i, err := find(index)
	if err != nil || i.Attrs().MTU <= mtu {
		return err
	}
	if err := netlink.LinkSetMTU(i, mtu); err != nil {
		return fmt.Errorf("set the MTU of interface %d to %d: %w", index, mtu, err)
	}
	return nil
}

// Route adds a route to a network by an interface. Without a gateway, the network is on the
// interface's own link. If from is valid, it is the source address of packets that the namespace
// itself sends.
func Route(index int, to netip.Prefix, gateway, from netip.Addr, metric int) error {
	r := &netlink.Route{
		LinkIndex: index, Gw: gateway.AsSlice(), Src: from.AsSlice(), Priority: metric,
		Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_UNIVERSE,
	}
	if to.Bits() > 0 {
		r.Dst = &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}
	}
	if !gateway.IsValid() {
		r.Scope = netlink.SCOPE_LINK
	}
	// RouteAdd would fail if another interface had a route to the network.
	if err := netlink.RouteAddEcmp(r); err != nil {
		return fmt.Errorf("route %s by interface %d: %w", to, index, err)
	}
	return nil
}

// byIndex returns a link for calls that use only its index.
func byIndex(index int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// find returns the interface with an index, or ErrNotFound.
func find(index int) (netlink.Link, error) {
	i, err := netlink.LinkByIndex(index)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("interface %d: %w", index, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read interface %d: %w", index, err)
	}
	return i, nil
}

// remove deletes an interface. It succeeds if the interface is gone since find found it.
func remove(i netlink.Link) error {
	if err := netlink.LinkDel(i); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete %s: %w", i.Attrs().Name, err)
	}
	return nil
}
