package link

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

const neighHead = unix.SizeofNdMsg

// cleanNeighbour makes a neighbour as dumped comparable and sendable. One that
// the kernel learned, and will learn again, is nil.
func cleanNeighbour(m []byte) (Message, error) {
	if len(m) < neighHead {
		return nil, fmt.Errorf("neighbour message of %d bytes", len(m))
	}
	if !given(m) {
		return nil, nil
	}
	list, err := netlink.Parse(m[neighHead:])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:neighHead])
	native.PutUint32(out[4:], 0) // ndm_ifindex
	for a := range list.All() {
		switch a.Kind {
		case unix.NDA_CACHEINFO, unix.NDA_PROBES, unix.NDA_MASTER:
			continue
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out, nil
}

// given tells a neighbour that somebody gave the interface. The kernel makes
// entries without ARP, too, but for multicast and broadcast addresses and on
// interfaces that have none, where they say nothing (arp.c:arp_constructor).
func given(m []byte) bool {
	state, flags, kind := native.Uint16(m[8:]), m[10], m[11]
	switch {
	case flags&unix.NTF_PROXY != 0:
		return true
	case kind != unix.RTN_UNICAST && m[0] != unix.AF_BRIDGE:
		return false
	}
	return state&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0
}

// neighbourOn is a neighbour as a request for the interface with an index.
func (m Message) neighbourOn(index int) []byte {
	out := slices.Clone([]byte(m))
	native.PutUint32(out[4:], uint32(index))
	return out
}

// neighbour names a neighbour for people.
func (m Message) neighbour() string {
	list, _ := netlink.Parse(m[neighHead:])
	if v, ok := list.Find(unix.NDA_DST); ok {
		addr, _ := netip.AddrFromSlice(v)
		if m[10]&unix.NTF_PROXY != 0 {
			return "proxy " + addr.String()
		}
		return addr.String()
	}
	v := list.Value(unix.NDA_LLADDR)
	return net.HardwareAddr(v).String()
}

// neighbours are the interface's permanent neighbours and those that the node
// answers for, of both families.
func (c *Conn) neighbours(index int) ([]Message, error) {
	var list []Message
	for _, flags := range []byte{0, unix.NTF_PROXY} {
		m, err := c.dumpNeighbours(index, unix.AF_UNSPEC, flags)
		if err != nil {
			return nil, err
		}
		list = append(list, m...)
	}
	return list, nil
}

func (c *Conn) dumpNeighbours(index int, family, flags byte) ([]Message, error) {
	request := make([]byte, neighHead)
	request[0], request[10] = family, flags
	request = netlink.AppendUint32(request, unix.NDA_IFINDEX, uint32(index))
	answers, err := c.send(unix.RTM_GETNEIGH, unix.NLM_F_DUMP, unix.RTM_NEWNEIGH, request)
	if err != nil {
		return nil, err
	}
	var list []Message
	for _, a := range answers {
		m, err := cleanNeighbour(a)
		if err != nil {
			return nil, err
		}
		if m != nil {
			list = append(list, m)
		}
	}
	return list, nil
}

// applyNeighbours adds the neighbours that are missing. It must follow what sets
// IFF_NOARP, which forgets all.
func (c *Conn) applyNeighbours(index int, want Settings) error {
	if len(want.Neighbours) == 0 {
		return nil
	}
	have, err := c.neighbours(index)
	if err != nil {
		return fmt.Errorf("read the neighbours of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(want.Neighbours, have, Message.key) {
		_, err := c.send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.neighbourOn(index))
		if err != nil {
			return fmt.Errorf("add neighbour %s to %s: %w", m.neighbour(), want.Name, err)
		}
	}
	return nil
}

// removeNeighbours removes the neighbours beyond.
func (c *Conn) removeNeighbours(index int, want Settings) error {
	have, err := c.neighbours(index)
	if err != nil {
		return fmt.Errorf("read the neighbours of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(have, want.Neighbours, Message.key) {
		_, err := c.send(unix.RTM_DELNEIGH, unix.NLM_F_ACK, 0, m.neighbourOn(index))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove neighbour %s from %s: %w", m.neighbour(), want.Name, err)
		}
	}
	return nil
}

// filters are the unicast hardware addresses beyond its own that the interface
// takes packets for (`bridge fdb ... self`), and that of VLAN registration. The other
// multicast ones follow from the groups that the node is a member of.
func (c *Conn) filters(index int, mac string) ([]Message, error) {
	if isIPoIB(mac) {
		return nil, nil // rtnetlink.c:ndo_dflt_fdb_dump knows Ethernet only
	}
	list, err := c.dumpNeighbours(index, unix.AF_BRIDGE, 0)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	return slices.DeleteFunc(list, func(m Message) bool { return !m.isGivenFilter() }), err
}

// ownFilters are the filters less those that macvlans put there for themselves.
func (c *Conn) ownFilters(index int, mac string) ([]Message, error) {
	list, err := c.filters(index, mac)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	children, err := c.children(index)
	return slices.DeleteFunc(list, func(m Message) bool {
		return slices.ContainsFunc(children, func(i Interface) bool { return i.MAC == m.neighbour() })
	}), err
}

func (m Message) isGivenFilter() bool {
	list, _ := netlink.Parse(m[neighHead:])
	mac := list.Value(unix.NDA_LLADDR)
	return m[10]&unix.NTF_SELF != 0 && len(mac) > 0 && (mac[0]&1 == 0 || bytes.Equal(mac, vlanRegistration[:]))
}

// vlanRegistration is the group of GVRP and MVRP, which the kernel joins with the first
// VLAN of an interface, and not again (vlan.c:register_vlan_dev).
var vlanRegistration = [...]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x21}

// applyFilters adds what is missing only: what there is beyond may be the
// address of a macvlan that stayed in another namespace.
func (c *Conn) applyFilters(index int, want Settings) error {
	if len(want.Filters) == 0 {
		return nil
	}
	have, err := c.filters(index, want.MAC)
	if err != nil {
		return fmt.Errorf("read the hardware address filters of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(want.Filters, have, Message.key) {
		_, err := c.send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m.neighbourOn(index))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add hardware address filter %s to %s: %w", m.neighbour(), want.Name, err)
		}
	}
	return nil
}
