package virtual

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// Overlay is a job's end of the network between its nodes: a VXLAN in the job's namespace, with its
// UDP socket in the node's. In the job it is what the node's interface with NodeAddr is on the node.
// It learns nothing, because gresnet knows beforehand which node's address is where.
type Overlay struct {
	Index int // when it is made
	Place int // its index in the job, if nothing there has that; 0: it keeps its index
	ID    int // of the network: the VNI

	Name    string
	Address netip.Prefix // the node's own
	All     netip.Addr   // the node's broadcast address; invalid: it has none
	Peers   []Peer
	Node    netip.Addr // from which the node sends the overlay's packets
	MTU     int        // of the interface
	Path    int        // the MTU of what reaches peers in one packet
	Port    int
}

// Peer is another node of the job.
type Peer struct {
	Address netip.Addr // that programs know
	Node    netip.Addr // to which the overlay's packets go
}

// OverlayOf returns the VNI that identifies a job's overlay, whatever name the job gives it, and an
// index that no other interface of the job has. A VNI has 24 bits. Open MPI keeps 16 bits of an index
// (opal/mca/if/if.h:opal_if_t), and takes two interfaces with the same 16 bits for one. So bit 15 is
// set, unlike in the kernel's small indices.
func OverlayOf(job uint32) Overlay {
	id := int(job & (1<<24 - 1))
	const low = 1<<15 - 1
	return Overlay{Index: UplinkBit | UplinkBit>>1 | id&^low<<1 | 1<<15 | id&low, ID: id}
}

// ErrOverlayTaken means that another overlay of the node has the same ID.
var ErrOverlayTaken = errors.New("the node has a VXLAN of that id and port already")

// The source ports of an overlay's packets, which users cannot bind.
const (
	lowOverlayPort  = 600
	highOverlayPort = 1000
)

// overlayMAC returns the MAC for an address in an overlay. It is locally administered, and in no
// range that hypervisors and container runtimes use.
func overlayMAC(a netip.Addr) net.HardwareAddr {
	if a.Is4() {
		b := a.As4()
		return append(net.HardwareAddr{0x0e, 0x67}, b[:]...)
	}
	b := a.As16()
	sum := sha256.Sum256(b[:])
	return append(net.HardwareAddr{0x0e, 0x66}, sum[:4]...)
}

// OverlayMTU returns the longest packet that an overlay between nodes carries in one of the node's:
// the MTU of the node's interface, less the headers around a packet of the overlay. The family of from
// decides how long these are.
func OverlayMTU(from netip.Addr, mtu int) int {
	const ethernet, ipv4, ipv6, udp, vxlan = 14, 20, 40, 8, 8
	if from.Is4() {
		return mtu - ethernet - ipv4 - udp - vxlan
	}
	return mtu - ethernet - ipv6 - udp - vxlan
}

// Way returns the source address and the interface of packets to an address.
func Way(to netip.Addr) (from netip.Addr, index int, err error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return netip.Addr{}, 0, fmt.Errorf("find a route to %s: %w", to, err)
	}
	from, ok := netip.AddrFromSlice(routes[0].Src)
	if !ok {
		return netip.Addr{}, 0, fmt.Errorf("find a route to %s: it has no source address", to)
	}
	return from.Unmap(), routes[0].LinkIndex, nil
}

// Here is an interface of the node with an address.
type Here struct {
	Name    string
	Index   int
	MTU     int
	Address netip.Prefix
	All     netip.Addr // the broadcast address; invalid: it has none
}

// Addressed returns the interface that has an address, if there is one.
func Addressed(a netip.Addr) (h Here, is bool) {
	list, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return Here{}, false
	}
	for _, one := range list {
		if ip, ok := netip.AddrFromSlice(one.IP); !ok || ip.Unmap() != a {
			continue
		}
		i, err := find(one.LinkIndex)
		if err != nil {
			return Here{}, false
		}
		bits, _ := one.Mask.Size()
		all, _ := netip.AddrFromSlice(one.Broadcast)
		return Here{Name: i.Attrs().Name, Index: one.LinkIndex, MTU: i.Attrs().MTU, Address: netip.PrefixFrom(a, bits), All: all}, true
	}
	return Here{}, false
}

// MakeOverlay makes an overlay in the namespace behind a file descriptor.
func MakeOverlay(o Overlay, nsfd int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.MTU = o.Name, o.Index, o.MTU
	attrs.HardwareAddr = overlayMAC(o.Address.Addr())
	attrs.Namespace = netlink.NsFd(nsfd)
	err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: o.ID, SrcAddr: o.Node.AsSlice(),
		Port: o.Port, PortLow: lowOverlayPort, PortHigh: highOverlayPort,
	})
	switch {
	case errors.Is(err, unix.EEXIST):
		err = ErrOverlayTaken
	case errors.Is(err, unix.EOPNOTSUPP):
		err = hint.With(errors.New("the kernel has no vxlan"), `GN276 modprobe vxlan, or set kind = "none" in [overlay]`)
	}
	if err != nil {
		return fmt.Errorf("make the overlay %s: %w", o.Name, err)
	}
	return nil
}

// RaiseOverlay gives an overlay its address, brings it up and adds its peers.
func RaiseOverlay(o Overlay) error {
	i, err := o.find(func(netlink.Link) (bool, error) { return true, nil }) // the job is not in there yet
	if err != nil {
		return err
	}
	if o.Index = i.Attrs().Index; o.Address.Addr().Is4() {
		err = closeIPv6(i)
	} else {
		err = setNoLinkLocal(i)
	}
	if err == nil {
		// The network around the address is not on the interface: only peers are.
		err = setAddress(o.Index, o.Address, o.All, unix.IFA_F_NOPREFIXROUTE|unix.IFA_F_NODAD)
	}
	if err == nil {
		err = raise(i)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("bring up the overlay %s: another socket has UDP port %d: %w", o.Name, o.Port, err)
		return hint.With(err, "GN277 ss -ulpn says which; end it, or take another overlay.port, the same on all nodes")
	}
	if err != nil {
		return err
	}
	if err = setOperational(o.Index); err == nil {
		err = addPeers(o)
	}
	if err == nil {
		err = addAll(i, o)
	}
	return err
}

// FindOverlay returns the index of an overlay that is not its job's yet.
func FindOverlay(o Overlay) (index int, err error) {
	i, err := o.find(func(netlink.Link) (bool, error) { return true, nil })
	if err != nil {
		return 0, err
	}
	return i.Attrs().Index, nil
}

// DeleteOverlay deletes an overlay, or returns ErrNotFound. node is a file descriptor of the namespace
// in which the overlay's socket is: another VXLAN of that id, which a user may have made in a
// namespace of theirs, has its socket elsewhere.
func DeleteOverlay(o Overlay, node int) error {
	i, err := o.find(func(i netlink.Link) (bool, error) { return isLinked(i, node) })
	if err != nil {
		return err
	}
	return remove(i)
}

// isLinked tells whether a namespace is the other end of an interface.
func isLinked(i netlink.Link, ns int) (bool, error) {
	const here = -1 // the other end is in the interface's own namespace
	if other := i.Attrs().NetNsID; other != here {
		id, err := netlink.GetNetNsIdByFd(ns)
		return other == id, err
	}
	var own, of unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return false, fmt.Errorf("look at this thread's namespace: %w", err)
	}
	if err := unix.Fstat(ns, &of); err != nil {
		return false, fmt.Errorf("look at the node's namespace: %w", err)
	}
	return own.Ino == of.Ino && own.Dev == of.Dev, nil
}

// find returns the first VXLAN of the overlay's id that a function is true of, whatever its name is by
// now, or ErrNotFound.
func (o Overlay) find(is func(netlink.Link) (bool, error)) (netlink.Link, error) {
	list, err := whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range list {
		if vxlan, one := i.(*netlink.Vxlan); !one || vxlan.VxlanId != o.ID {
			continue
		}
		if found, err := is(i); found || err != nil {
			return i, err
		}
	}
	return nil, fmt.Errorf("the VXLAN %d: %w", o.ID, ErrNotFound)
}

// HoldsLowPorts returns an error if users of the namespace can bind ports below 1024.
func HoldsLowPorts() error {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return fmt.Errorf("read which ports users can bind: %w", err)
	}
	port := strings.TrimSpace(string(text))
	if first, err := strconv.Atoi(port); err != nil || first < 1024 {
		err := fmt.Errorf("users of the node can bind ports from %s on, and so forge packets of jobs' networks", port)
		return hint.With(err, `GN278 set net.ipv4.ip_unprivileged_port_start=1024, or kind = "none" in [overlay]`)
	}
	return nil
}
