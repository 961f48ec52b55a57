package link

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// nexthopHead is the size of struct nhmsg, nexthopMember of struct nexthop_grp (linux/nexthop.h).
const (
	nexthopHead   = 8
	nexthopMember = 8
)

// Attributes of linux/nexthop.h that x/sys/unix lacks.
const (
	nhaFDB           = 11
	nhaResGroup      = 12
	nhaHWStatsEnable = 16

	nhaResGroupUnbalancedTime = 4
)

// cleanNexthop makes a next hop object as dumped comparable and sendable.
func cleanNexthop(m []byte) (Message, error) {
	if len(m) < nexthopHead {
		return nil, fmt.Errorf("next hop message of %d bytes", len(m))
	}
	list, err := netlink.Parse(m[nexthopHead:])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:nexthopHead])
	out[1] = 0 // nh_scope, which follows from the rest
	native.PutUint32(out[4:], native.Uint32(out[4:])&routeFlags)
	for a := range list.All() {
		switch a.Type() {
		case unix.NHA_ID, unix.NHA_GROUP, unix.NHA_GROUP_TYPE, unix.NHA_GATEWAY, unix.NHA_ENCAP_TYPE, nhaFDB, nhaHWStatsEnable:
		case unix.NHA_ENCAP:
			a.Kind = unix.NHA_ENCAP // without the flag, which nexthopOn sets
		case unix.NHA_OIF:
			a.Value = []byte{0, 0, 0, 0}
		case nhaResGroup:
			a.Value = without(a.Value, nhaResGroupUnbalancedTime)
		default:
			continue // state and counters, which a request must not have
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out, nil
}

// without is a list of attributes less those of a kind.
func without(list []byte, kind uint16) []byte {
	var out []byte
	all, _ := netlink.Parse(list)
	for a := range all.All() {
		if a.Kind != kind {
			out = netlink.Append(out, a.Kind, a.Value)
		}
	}
	return out
}

// nexthopOn is a next hop object as a request for the interface with an index.
func (m Message) nexthopOn(index int) []byte {
	out := slices.Clone([]byte(m[:nexthopHead]))
	list, _ := netlink.Parse(m[nexthopHead:])
	for a := range list.All() {
		switch a.Kind {
		case unix.NHA_OIF:
			a.Value = native.AppendUint32(nil, uint32(index))
		case unix.NHA_ENCAP:
			a.Kind |= unix.NLA_F_NESTED // which a request must say and a dump does not (lwtunnel.c:lwtunnel_fill_encap)
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out
}

// nexthopID is the number by which routes and groups call a next hop object.
func (m Message) nexthopID() uint32 {
	list, _ := netlink.Parse(m[nexthopHead:])
	v := list.Value(unix.NHA_ID)
	if len(v) != 4 {
		return 0
	}
	return native.Uint32(v)
}

func (m Message) nexthop() string { return fmt.Sprint(m.nexthopID()) }

// members are the numbers of the objects in a group.
func (m Message) members() []uint32 {
	list, _ := netlink.Parse(m[nexthopHead:])
	group := list.Value(unix.NHA_GROUP)
	var ids []uint32
	for ; len(group) >= nexthopMember; group = group[nexthopMember:] {
		ids = append(ids, native.Uint32(group))
	}
	return ids
}

// nexthops are the next hop objects of the interface and the groups of
// nothing else, and at home the groups that have others' members, too.
func (c *Conn) nexthops(index int) (own, home []Message, err error) {
	own, err = c.dumpNexthops(netlink.AppendUint32(nil, unix.NHA_OIF, uint32(index)))
	if err != nil || len(own) == 0 {
		return nil, nil, err
	}
	var ids []uint32
	for _, m := range own {
		ids = append(ids, m.nexthopID())
	}
	groups, err := c.dumpNexthops(netlink.Append(nil, unix.NHA_GROUPS, nil))
	for _, m := range groups {
		isOwn := func(id uint32) bool { return slices.Contains(ids, id) }
		isOther := func(id uint32) bool { return !isOwn(id) }
		switch members := m.members(); {
		case !slices.ContainsFunc(members, isOwn):
		case slices.ContainsFunc(members, isOther):
			home = append(home, m)
		default:
			own = append(own, m)
		}
	}
	return own, home, err
}

// nexthopOwner is the index of the interface of a next hop object, 0 if it has none.
func (c *Conn) nexthopOwner(id uint32) (int, error) {
	request := netlink.AppendUint32(make([]byte, nexthopHead), unix.NHA_ID, id)
	answers, err := c.send(unix.RTM_GETNEXTHOP, 0, unix.RTM_NEWNEXTHOP, request)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		if len(a) < nexthopHead {
			return 0, fmt.Errorf("next hop message of %d bytes", len(a))
		}
		list, err := netlink.Parse(a[nexthopHead:])
		if err != nil {
			return 0, err
		}
		if v := list.Value(unix.NHA_OIF); len(v) == 4 {
			return int(native.Uint32(v)), nil
		}
	}
	return 0, nil
}

// homeObjects are the numbers of the next hop objects that only the node can have.
func (s Settings) homeObjects() []uint32 {
	var ids []uint32
	for _, m := range s.HomeNexthops {
		ids = append(ids, m.nexthopID())
	}
	return ids
}

func (c *Conn) dumpNexthops(filter []byte) ([]Message, error) {
	request := append(make([]byte, nexthopHead), filter...)
	answers, err := c.send(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP, unix.RTM_NEWNEXTHOP, request)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // before kernel 5.3
	}
	if err != nil {
		return nil, err
	}
	list := make([]Message, 0, len(answers))
	for _, a := range answers {
		m, err := cleanNexthop(a)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// applyNexthops makes the objects that are missing anew under their numbers,
// by which routes call them. A group that lost its member when the interface
// left still has its others, and is replaced.
func (c *Conn) applyNexthops(index int, want []Message, name string) error {
	if len(want) == 0 {
		return nil
	}
	own, home, err := c.nexthops(index)
	if err != nil {
		return fmt.Errorf("read the next hop objects of %s: %w", name, err)
	}
	for _, m := range netlink.Missing(want, append(own, home...), Message.key) {
		_, err := c.send(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.nexthopOn(index))
		if err != nil {
			return fmt.Errorf("add next hop object %s to %s: %w", m.nexthop(), name, err)
		}
	}
	return nil
}
