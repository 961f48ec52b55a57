package inet

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
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
	nhaOpFlags       = 14
	nhaHWStatsEnable = 16

	opDumpStats = 1 // NHA_OP_FLAG_DUMP_STATS

	nhaResGroupUnbalancedTime = 4
)

// Nexthop is a next hop object as the kernel dumped it, made independent of the interface's index.
type Nexthop []byte

// Protocol says who made it (rtnetlink(7)).
func (m Nexthop) Protocol() byte { return m[2] } // nh_protocol

// Lost names the encapsulation of what it takes, if the kernel does not tell all of it.
func (m Nexthop) Lost() string {
	return lost(m.attributes(), unix.NHA_ENCAP_TYPE, unix.NHA_ENCAP)
}

func (m Nexthop) attributes() netlink.Attributes { return netlink.Kept(m, nexthopHead) }

// cleanNexthop makes a next hop object as dumped comparable and sendable.
func cleanNexthop(m []byte) (Nexthop, error) {
	list, err := netlink.Behind(m, nexthopHead, "next hop")
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:nexthopHead])
	out[1] = 0 // nh_scope, which follows from the rest
	nativeRoute.PutUint32(out[4:], nativeRoute.Uint32(out[4:])&routeFlags)
	for a := range list.All() {
		switch a.Type() {
		case unix.NHA_ID, unix.NHA_GROUP, unix.NHA_GROUP_TYPE, unix.NHA_GATEWAY, unix.NHA_ENCAP_TYPE, nhaFDB:
		case nhaHWStatsEnable:
			if netlink.Number(a.Value) == 0 {
				continue // as kernels that do not know it have it
			}
		case unix.NHA_ENCAP:
			a.Kind = unix.NHA_ENCAP // without the flag, which on sets
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

// without returns a list of attributes less those of a kind.
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

// on returns a next hop object as a request for the interface with an index.
func (m Nexthop) on(index int) []byte {
	out := slices.Clone([]byte(m[:nexthopHead]))
	for a := range m.attributes().All() {
		switch a.Kind {
		case unix.NHA_OIF:
			a.Value = nativeRoute.AppendUint32(nil, uint32(index))
		case unix.NHA_ENCAP:
			a.Kind |= unix.NLA_F_NESTED // which a request must say and a dump does not (lwtunnel.c:lwtunnel_fill_encap)
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out
}

// ID returns the number by which routes and groups call a next hop object.
func (m Nexthop) ID() uint32 { return uint32(m.attributes().Number(unix.NHA_ID)) }

// NexthopIDs returns the numbers of objects.
func NexthopIDs(list []Nexthop) (ids []uint32) {
	for _, m := range list {
		ids = append(ids, m.ID())
	}
	return ids
}

// Key returns what makes a next hop object the same one.
func (m Nexthop) Key() string { return string(m) }

// String names it for people.
func (m Nexthop) String() string { return fmt.Sprint(m.ID()) }

// Members returns the numbers of the objects in a group.
func (m Nexthop) Members() []uint32 {
	group := m.attributes().Value(unix.NHA_GROUP)
	var ids []uint32
	for ; len(group) >= nexthopMember; group = group[nexthopMember:] {
		ids = append(ids, nativeRoute.Uint32(group))
	}
	return ids
}

// ReadNexthops returns the next hop objects of the interface and the groups of
// nothing else, and on the node the groups that have others' members, too.
func ReadNexthops(r *netlink.Route, index int) (own, shared []Nexthop, err error) {
	own, err = cleanNexthops(r.Entries(objects, index))
	if err != nil || len(own) == 0 {
		return nil, nil, err
	}
	ids := NexthopIDs(own)
	groups, err := dumpGroups(r)
	for _, m := range groups {
		isOwn := func(id uint32) bool { return slices.Contains(ids, id) }
		isOther := func(id uint32) bool { return !isOwn(id) }
		switch members := m.Members(); {
		case !slices.ContainsFunc(members, isOwn):
		case slices.ContainsFunc(members, isOther):
			shared = append(shared, m)
		default:
			own = append(own, m)
		}
	}
	return own, shared, err
}

// OthersNexthops returns the numbers of the objects that some groups and routes use, without an interface's own ones and
// these groups.
func OthersNexthops(own, groups []Nexthop, routes []Route) (ids []uint32) {
	known := append(NexthopIDs(slices.Concat(own, groups)), 0)
	note := func(id uint32) {
		if !slices.Contains(known, id) {
			known, ids = append(known, id), append(ids, id)
		}
	}
	for _, m := range groups {
		for _, id := range m.Members() {
			note(id)
		}
	}
	for _, m := range routes {
		note(m.Object())
	}
	return ids
}

// NexthopOwners returns the indices of the interfaces of a next hop object, or of the members of a group.
func NexthopOwners(r *netlink.Route, id uint32) (indices []int, err error) {
	request := netlink.AppendUint32(make([]byte, nexthopHead), unix.NHA_ID, id)
	answers, err := r.Send(unix.RTM_GETNEXTHOP, 0, unix.RTM_NEWNEXTHOP, request)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		list, err := netlink.Behind(a, nexthopHead, "next hop")
		if err != nil {
			return nil, err
		}
		if owner := list.Number(unix.NHA_OIF); owner != 0 {
			indices = append(indices, int(owner))
		}
		for _, member := range Nexthop(a).Members() {
			of, err := NexthopOwners(r, member)
			if err != nil {
				return nil, err
			}
			indices = append(indices, of...)
		}
	}
	return indices, nil
}

// dumpGroups returns the groups of next hop objects. That hardware counts for one is among its
// counters, which kernels before 6.9 have not, and take no such request.
func dumpGroups(r *netlink.Route) ([]Nexthop, error) {
	filter := netlink.Append(nil, unix.NHA_GROUPS, nil)
	groups, err := dumpNexthops(r, netlink.AppendUint32(filter, nhaOpFlags, opDumpStats))
	if errors.Is(err, unix.EINVAL) {
		return dumpNexthops(r, filter)
	}
	return groups, err
}

// objects has the next hop objects.
var objects = netlink.Table{
	Kind: unix.RTM_GETNEXTHOP, Want: unix.RTM_NEWNEXTHOP,
	All: make([]byte, nexthopHead),
	Of: func(index int) []byte {
		return netlink.AppendUint32(make([]byte, nexthopHead), unix.NHA_OIF, uint32(index))
	},
	Indices: func(m []byte, each func(int)) {
		if len(m) < nexthopHead {
			return
		}
		list, _ := netlink.Parse(m[nexthopHead:])
		if v := list.Value(unix.NHA_OIF); len(v) == 4 {
			each(int(nativeRoute.Uint32(v)))
		}
	},
}

func dumpNexthops(r *netlink.Route, filter []byte) ([]Nexthop, error) {
	request := append(make([]byte, nexthopHead), filter...)
	return cleanNexthops(r.Send(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP, unix.RTM_NEWNEXTHOP, request))
}

func cleanNexthops(answers [][]byte, err error) ([]Nexthop, error) {
	if err != nil {
		return nil, err
	}
	return netlink.Cleaned(answers, cleanNexthop)
}

// ApplyNexthops makes the objects that are missing again under their numbers,
// by which routes call them. A group that lost its member when the interface
// left still has its others, and is replaced.
func ApplyNexthops(r *netlink.Route, index int, want []Nexthop, name string) error {
	if len(want) == 0 {
		return nil
	}
	own, shared, err := ReadNexthops(r, index)
	if err != nil {
		return fmt.Errorf("read the next hop objects of %s: %w", name, err)
	}
	for _, m := range netlink.Missing(want, append(own, shared...), Nexthop.Key) {
		_, err := r.Send(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.on(index))
		if err != nil {
			return fmt.Errorf("add next hop object %s to %s: %w", m, name, err)
		}
	}
	return nil
}
