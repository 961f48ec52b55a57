package inet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

const neighbourHead = unix.SizeofNdMsg

// Neighbour is one as the kernel dumped it, made independent of the interface's index.
type Neighbour []byte

var nativeNeighbour = binary.NativeEndian

// cleanNeighbour makes a neighbour as dumped comparable and sendable. One that
// the kernel learned, and will learn again, is nil.
func cleanNeighbour(m []byte) (Neighbour, error) {
	list, err := netlink.Behind(m, neighbourHead, "neighbour")
	if err != nil || !isGiven(m) {
		return nil, err
	}
	out := slices.Clone(m[:neighbourHead])
	nativeNeighbour.PutUint32(out[4:], 0) // ndm_ifindex
	out[11] = 0                           // ndm_type: what the address was to the node when the neighbour was made
	for a := range list.All() {
		switch a.Kind {
		case unix.NDA_CACHEINFO, unix.NDA_PROBES, unix.NDA_MASTER:
			continue
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out, nil
}

// isGiven tells a neighbour that somebody gave the interface. The kernel makes
// entries without ARP, too, but for multicast and broadcast addresses and on
// interfaces that have none, where they say nothing (arp.c:arp_constructor). It makes no permanent ones: a site can
// give each node those of all nodes, with its own.
func isGiven(m []byte) bool {
	state, flags, kind := nativeNeighbour.Uint16(m[8:]), m[10], m[11]
	if flags&unix.NTF_PROXY != 0 || state&unix.NUD_PERMANENT != 0 {
		return true
	}
	return state&unix.NUD_NOARP != 0 && (kind == unix.RTN_UNICAST || m[0] == unix.AF_BRIDGE)
}

// String names a neighbour for people.
func (m Neighbour) String() string {
	list := netlink.Kept(m, neighbourHead)
	_, is := list.Find(unix.NDA_DST)
	switch {
	case !is:
		return net.HardwareAddr(list.Value(unix.NDA_LLADDR)).String()
	case m[10]&unix.NTF_PROXY != 0:
		return "proxy " + list.Addr(unix.NDA_DST).String()
	}
	return list.Addr(unix.NDA_DST).String()
}

// ReadNeighbours returns the interface's permanent neighbours and those that the node
// answers for, of both families.
func ReadNeighbours(r *netlink.Route, index int) ([]Neighbour, error) {
	list, err := dump(r, index, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	answered, err := given(r.Entries(proxies, index))
	return append(list, answered...), err
}

// proxies has the neighbours that the node answers for. Those are few. A node may have learned thousands of
// other neighbours, and the kernel picks those of one interface sooner than it lists all.
var proxies = netlink.Table{
	Kind: unix.RTM_GETNEIGH, Want: unix.RTM_NEWNEIGH,
	All: head(unix.AF_UNSPEC, unix.NTF_PROXY),
	Of:  func(index int) []byte { return neighbourOf(index, unix.AF_UNSPEC, unix.NTF_PROXY) },
	Indices: func(m []byte, each func(int)) {
		if len(m) >= neighbourHead {
			each(int(nativeNeighbour.Uint32(m[4:]))) // ndm_ifindex
		}
	},
}

func head(family, flags byte) []byte {
	request := make([]byte, neighbourHead)
	request[0], request[10] = family, flags
	return request
}

// of asks for the neighbours of an interface.
func neighbourOf(index int, family, flags byte) []byte {
	return netlink.AppendUint32(head(family, flags), unix.NDA_IFINDEX, uint32(index))
}

func dump(r *netlink.Route, index int, family byte) ([]Neighbour, error) {
	return given(r.Send(unix.RTM_GETNEIGH, unix.NLM_F_DUMP, unix.RTM_NEWNEIGH, neighbourOf(index, family, 0)))
}

// given returns those among neighbours as dumped that somebody gave.
func given(answers [][]byte, err error) ([]Neighbour, error) {
	if err != nil {
		return nil, err
	}
	return netlink.Cleaned(answers, cleanNeighbour)
}

// ApplyNeighbours adds the neighbours that are missing. It must follow what sets IFF_NOARP, which forgets all.
func ApplyNeighbours(r *netlink.Route, index int, name string, want []Neighbour) error {
	if len(want) == 0 {
		return nil
	}
	have, err := ReadNeighbours(r, index)
	if err != nil {
		return fmt.Errorf("read the neighbours of %s: %w", name, err)
	}
	for _, m := range netlink.Missing(want, have, netlink.Key) {
		_, err := r.Send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, netlink.On(m, index))
		if err != nil {
			return fmt.Errorf("add neighbour %s to %s: %w", m, name, err)
		}
	}
	return nil
}

// RemoveOtherNeighbours removes the neighbours that are not wanted.
func RemoveOtherNeighbours(r *netlink.Route, index int, name string, want []Neighbour) error {
	have, err := ReadNeighbours(r, index)
	if err != nil {
		return fmt.Errorf("read the neighbours of %s: %w", name, err)
	}
	for _, m := range netlink.Missing(have, want, netlink.Key) {
		_, err := r.Send(unix.RTM_DELNEIGH, unix.NLM_F_ACK, 0, netlink.On(m, index))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove neighbour %s from %s: %w", m, name, err)
		}
	}
	return nil
}

// Filters returns the unicast hardware addresses beyond its own that the interface, one of Ethernet,
// takes packets for (`bridge fdb ... self`), and that of VLAN registration. The other
// multicast ones follow from the groups that the node is a member of.
func Filters(r *netlink.Route, index int) ([]Neighbour, error) {
	list, err := dump(r, index, unix.AF_BRIDGE)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	return slices.DeleteFunc(list, func(m Neighbour) bool { return !m.isGivenFilter() }), err
}

func (m Neighbour) isGivenFilter() bool {
	mac := netlink.Kept(m, neighbourHead).Value(unix.NDA_LLADDR)
	return m[10]&unix.NTF_SELF != 0 && len(mac) > 0 && (mac[0]&1 == 0 || bytes.Equal(mac, vlanRegistration[:]))
}

// vlanRegistration is the group of GVRP and MVRP, which the kernel joins with the first
// VLAN of an interface, and not again (vlan.c:register_vlan_dev).
var vlanRegistration = [...]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x21}

// ApplyFilters adds the filters that an interface lacks, which has some.
func ApplyFilters(r *netlink.Route, index int, name string, want, have []Neighbour) error {
	for _, m := range netlink.Missing(want, have, netlink.Key) {
		_, err := r.Send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, netlink.On(m, index))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add hardware address filter %s to %s: %w", m, name, err)
		}
	}
	return nil
}
