package virtual

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
)

// Overlay is a job's end of the network between its nodes: a VXLAN in the job's namespace, with its
// UDP socket in the node's. It learns and floods nothing, because gresnet knows beforehand which
// address is on which node.
type Overlay struct {
	Index int // in the job, where no other interface can have so high a one
	ID    int // of the network: the VNI

	Name    string
	Address netip.Prefix
	Peers   []Peer
	Node    netip.Addr // the node's address that the others know
	MTU     int
	Port    int
}

// Peer is another node of the job.
type Peer struct {
	Address netip.Addr // in the job
	Node    netip.Addr
}

// OverlayOf returns the index and the VNI that identify a job's overlay, whatever name the job
// gives it. A VNI has 24 bits. Open MPI keeps 16 bits of an index (opal/mca/if/if.h:opal_if_t), and
// takes two interfaces with the same 16 bits for one. So bit 15 is set, unlike in the kernel's
// small indices.
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
	b := a.As4()
	return append(net.HardwareAddr{0x0e, 0x67}, b[:]...)
}

// OverlayMTU returns the MTU of an overlay between nodes: the MTU of the node's interface, less the
// headers around a packet of the overlay. The family of from decides how long these are.
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

// AloneMTU is the MTU of the overlay of a job with one node: the most that the kernel accepts
// (drivers/net/vxlan/vxlan_core.c:vxlan_ether_setup).
const AloneMTU = 65535 - 50

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
	err := Give(o.Index, o.Address, o.Address.Addr())
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("bring up the overlay %s: another socket has UDP port %d: %w", o.Name, o.Port, err)
		return hint.With(err, "GN277 ss -ulpn says which; end it, or take another overlay.port, the same on all nodes")
	}
	if err != nil {
		return err
	}
	return addPeers(o)
}

// DeleteOverlay deletes an overlay, or returns ErrNotFound.
func DeleteOverlay(o Overlay) error {
	i, err := find(o.Index)
	if err != nil {
		return err
	}
	if vxlan, is := i.(*netlink.Vxlan); !is || vxlan.VxlanId != o.ID {
		return fmt.Errorf("interface %d: %w", o.Index, ErrNotFound)
	}
	return remove(i)
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
