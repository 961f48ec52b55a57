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

// Give gives an interface an address and brings it up.
func Give(index int, address netip.Prefix) error {
	if err := setAddress(index, address, none, 0); err != nil {
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
	return setAddress(lo.Attrs().Index, netip.PrefixFrom(a, a.BitLen()), none, 0)
}

var none netip.Addr

// setAddress gives an interface an address, and the broadcast address all, if that is one.
func setAddress(index int, address netip.Prefix, all netip.Addr, flags int) error {
	mask := net.CIDRMask(address.Bits(), address.Addr().BitLen())
	a := &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: mask}, Flags: flags}
	if address.Addr().Is4() {
		a.Broadcast = net.IPv4zero // none
		if all.Is4() {
			a.Broadcast = all.AsSlice()
		}
	}
	if err := netlink.AddrReplace(byIndex(index), a); err != nil {
		return fmt.Errorf("give interface %d the address %s: %w", index, address, err)
	}
	return nil
}

// Open switches IPv6 off on an interface and brings it up. With IPv6, a router on the network would
// give it addresses and routes that nobody asked for.
func Open(index int) error {
	i, err := find(index)
	if err == nil {
		err = closeIPv6(i)
	}
	if err == nil {
		err = raise(i)
	}
	return err
}

func raise(i netlink.Link) error {
	if err := netlink.LinkSetUp(i); err != nil {
		return fmt.Errorf("bring up %s: %w", i.Attrs().Name, err)
	}
	return nil
}

func closeIPv6(i netlink.Link) error {
	return set(i.Attrs().Name, "ipv6", "disable_ipv6", "1")
}

// setNoLinkLocal leaves an interface with the IPv6 addresses that it is given.
func setNoLinkLocal(i netlink.Link) error {
	const none = "1" // IN6_ADDR_GEN_MODE_NONE
	return set(i.Attrs().Name, "ipv6", "addr_gen_mode", none)
}

// set sets a sysctl of an interface, if the kernel has it: one without IPv6 has none of its.
func set(name, family, key, value string) error {
	path := filepath.Join("/proc/sys/net", family, "conf", name, key)
	if err := os.WriteFile(path, []byte(value), 0); err != nil && (family != "ipv6" || !errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("set %s of %s to %s: %w", key, name, value, err)
	}
	return nil
}

// SetMTU sets the MTU of an interface.
func SetMTU(index, mtu int) error {
	if err := netlink.LinkSetMTU(byIndex(index), mtu); err != nil {
		return fmt.Errorf("set the MTU of interface %d to %d: %w", index, mtu, err)
	}
	return nil
}

// Route is a route by an interface.
type Route struct {
	To      netip.Prefix
	Gateway netip.Addr // invalid: the network is on the interface's own link
	From    netip.Addr // the source address of packets that the namespace itself sends; invalid: the kernel's choice
	Metric  int
	MTU     int  // how long packets may be that reach the network in one piece; 0: the interface's
	Table   int  // 0: the main table
	Onlink  bool // the gateway is on the interface's own link, whatever other routes say
}

// Add adds a route by an interface.
func (r Route) Add(index int) error { return r.with(netlink.RouteAddEcmp, index) }

// AddAll adds routes to several networks, by one socket.
func (r Route) AddAll(index int, networks []netip.Prefix) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink: %w", err)
	}
	defer h.Close()
	for _, r.To = range networks {
		if err := r.with(h.RouteAddEcmp, index); err != nil {
			return err
		}
	}
	return nil
}

// with adds a route with RouteAddEcmp: RouteAdd would fail if another interface had a route to the network.
func (r Route) with(add func(*netlink.Route) error, index int) error {
	to := &netlink.Route{
		LinkIndex: index, Gw: r.Gateway.AsSlice(), Src: r.From.AsSlice(), Priority: r.Metric, Table: r.Table, MTU: r.MTU,
		Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_UNIVERSE,
	}
	if r.To.Bits() > 0 {
		to.Dst = &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())}
	}
	if !r.Gateway.IsValid() {
		to.Scope = netlink.SCOPE_LINK
	}
	if r.Onlink {
		to.SetFlag(netlink.FLAG_ONLINK)
	}
	if err := add(to); err != nil {
		return fmt.Errorf("route %s by interface %d: %w", r.To, index, err)
	}
	return nil
}

// Join tells an interface the MAC of an address on its link, so that neither asks the other.
func Join(index int, a netip.Addr, mac net.HardwareAddr) error {
	err := netlink.NeighSet(&netlink.Neigh{LinkIndex: index, IP: a.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT})
	if err != nil {
		return fmt.Errorf("tell interface %d who has %s: %w", index, a, err)
	}
	return nil
}

// refused says why the kernel makes no interface of a kind.
func refused(err error, kind string) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the kernel has no %s", kind)
	case errors.Is(err, unix.EEXIST):
		return errors.New("another interface has that name")
	case errors.Is(err, unix.ENODEV):
		return ErrNotFound
	}
	return err
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
