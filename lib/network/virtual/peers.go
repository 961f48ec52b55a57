package virtual

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// addPeers adds the other nodes. It sends the requests for neighbours together, because a job may have
// thousands.
func addPeers(o Overlay) error {
	r, err := netlink.OpenRoute()
	if err != nil {
		return err
	}
	defer r.Close()
	var all [][]byte
	var addresses []netip.Addr
	for _, p := range o.Peers {
		mac := overlayMAC(p.Address)
		all = append(all, device(o.Index, mac, p.Node), permanent(o.Index, p.Address, mac))
		addresses = append(addresses, p.Address)
	}
	refused, err := r.SendAll(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, all)
	if err != nil {
		p := o.Peers[refused/2]
		return fmt.Errorf("add %s at %s to %s: %w", p.Address, p.Node, o.Name, err)
	}
	return Route{From: o.Address.Addr(), MTU: o.Path}.AddAll(o.Index, Networks(addresses))
}

// addBroadcast has a VXLAN send to all peers what is for several: to this MAC it sends what is for none that it
// knows, and so broadcasts and multicasts.
func addBroadcast(o Overlay) error {
	r, err := netlink.OpenRoute()
	if err != nil {
		return err
	}
	defer r.Close()
	unknown := make(net.HardwareAddr, 6)
	var all [][]byte
	for _, p := range o.Peers {
		all = append(all, device(o.Index, unknown, p.Node))
	}
	refused, err := r.SendAll(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_APPEND, all)
	if err != nil {
		return fmt.Errorf("have %s send broadcasts to %s: %w", o.Name, o.Peers[refused].Node, err)
	}
	return nil
}

// Networks returns the fewest networks that have some addresses and no others: the nodes of a job often
// have addresses in a row.
func Networks(all []netip.Addr) (networks []netip.Prefix) {
	all = slices.Clone(all)
	slices.SortFunc(all, netip.Addr.Compare)
	for _, a := range slices.Compact(all) {
		n := netip.PrefixFrom(a, a.BitLen())
		for last := len(networks) - 1; last >= 0; last-- {
			whole := netip.PrefixFrom(n.Addr(), n.Bits()-1).Masked()
			if networks[last].Bits() != n.Bits() || networks[last].Addr() != whole.Addr() || n.Addr() == whole.Addr() {
				break
			}
			n, networks = whole, networks[:last]
		}
		networks = append(networks, n)
	}
	return networks
}

// permanent returns the request for a neighbour that the kernel need not ask for: it has an address, and
// a hardware address.
func permanent(index int, address netip.Addr, mac net.HardwareAddr) []byte {
	family := byte(unix.AF_INET6)
	if address.Is4() {
		family = unix.AF_INET
	}
	m := neighbor(index, family, unix.NUD_PERMANENT, 0)
	return netlink.Append(netlink.Append(m, unix.NDA_DST, address.AsSlice()), unix.NDA_LLADDR, mac)
}

// device returns the request by which a VXLAN sends what is for a hardware address to a node
// (`bridge fdb replace MAC dst NODE self`).
func device(index int, mac net.HardwareAddr, node netip.Addr) []byte {
	m := neighbor(index, unix.AF_BRIDGE, unix.NUD_NOARP|unix.NUD_PERMANENT, unix.NTF_SELF)
	return netlink.Append(netlink.Append(m, unix.NDA_DST, node.AsSlice()), unix.NDA_LLADDR, mac)
}

// neighbor returns a message's fixed part (struct ndmsg).
func neighbor(index int, family byte, state uint16, flags byte) []byte {
	m := make([]byte, unix.SizeofNdMsg)
	m[0], m[10] = family, flags
	binary.NativeEndian.PutUint32(m[4:], uint32(index))
	binary.NativeEndian.PutUint16(m[8:], state)
	return m
}

// setOperational has an interface that is up say that it is. The kernel says so by itself of those that can lose
// their link; a VXLAN is UNKNOWN to programs that look for interfaces which are UP.
func setOperational(index int) error {
	const up = 6 // IF_OPER_UP
	r, err := netlink.OpenRoute()
	if err != nil {
		return err
	}
	defer r.Close()
	m := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(m[4:], uint32(index))
	if _, err := r.Send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, netlink.Append(m, unix.IFLA_OPERSTATE, []byte{up})); err != nil {
		return fmt.Errorf("say that interface %d is up: %w", index, err)
	}
	return nil
}
