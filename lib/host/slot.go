package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"gresnet/lib/address"
	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
	"gresnet/lib/virtual"
)

// readSlot reads which interfaces a slot has in a job. An error is why no job can have it.
func (l *Look) readSlot(v *scan.View, mode rdma.Mode, e gres.Entry, d scan.Device, h *plan.HCA) error {
	if mode == rdma.Exclusive && e.Part == config.PartPKey {
		err := fmt.Errorf("part = %q with count = %d is for the shared RDMA netns mode, and the node is in exclusive mode", e.Part, e.Slot.Of)
		return hint.With(err, `GN362 take count = 1: a job then gets the whole HCA, and an interface for its partition; or put the node into shared mode ([rdma] mode)`)
	}
	if mode == rdma.Exclusive {
		err := fmt.Errorf("part = %q is for the shared RDMA netns mode, and the node is in exclusive mode", e.Part)
		return hint.With(err, `GN341 put the node into shared mode ([rdma] mode), or take part = "vf": the kernel lets only one network namespace open an HCA`)
	}
	return l.readChildren(v, e, d, h)
}

// readChildren reads which interfaces gresnet makes for a job that has a slot of an HCA, or the whole
// HCA for a partition. An error is why no job can have it.
func (l *Look) readChildren(v *scan.View, e gres.Entry, d scan.Device, h *plan.HCA) (err error) {
	if h.PKeys, err = readPKeys(v, d, e, h.Ports); err != nil || e.Part == config.PartShared {
		return err
	}
	for _, p := range h.Ports {
		if _, in := h.PKeys[p.Num]; p.Interface == nil || len(h.PKeys) > 0 && !in {
			continue
		}
		c, err := l.readChild(v, e, p)
		if err == nil && e.Part != config.PartPKey {
			err = roomForGIDs(v, d, p, e)
		}
		if err != nil {
			return err
		}
		h.Children = append(h.Children, c)
	}
	if len(h.Children) == 0 {
		return hint.With(fmt.Errorf("%s has no network interface on the node", e.HCA.Name), `GN342 take part = "shared", which gives jobs no interface`)
	}
	return nil
}

// readChild returns the interface that a slot has on that of a port.
func (l *Look) readChild(v *scan.View, e gres.Entry, p scan.Port) (*step.Child, error) {
	parent := *p.Interface
	if err := canCarry(v, e.Part, parent, p.LinkLayer); err != nil {
		return nil, err
	}
	slot, whole := gres.Slot{Of: 1}, e.Slot == nil
	if !whole {
		slot = *e.Slot
	}
	c := virtual.Child{Kind: e.Part, Name: parent.Name, Index: virtual.ChildIndex(e.Place, p.Num, slot.Number)}
	switch e.Part {
	case config.PartMacvlan:
		c.MAC = virtual.ChildMAC(parent.MAC, slot.Number)
	case config.PartPKey:
		c.Kind, c.PKey = virtual.IPoIB, e.PKey
	}
	if whole && !e.Keep {
		suffix := fmt.Sprintf(".%04x", uint16(e.PKey)) // as people name it
		c.Name = parent.Name[:min(len(parent.Name), longestName-len(suffix))] + suffix
	}
	if e.Network.IsValid() {
		list, _, _, err := address.Read(v.Link.Route, parent.Index)
		if err != nil {
			return nil, fmt.Errorf("read the addresses of %s: %w", parent.Name, err)
		}
		if c.Address, err = slotAddress(parent.Name, list, e.Network, slot); err != nil {
			return nil, err
		}
	}
	child := &step.Child{
		Of: e.HCA.ID, Name: c.Name, Type: c.Kind, Index: c.Index, PKey: c.PKey,
		Link: c, Parent: parent.Index, Inside: whole && !e.Keep, IPoIB: parent.IPoIB, Running: c.Kind == virtual.IPoIB && parent.Running, Port: p.Num,
	}
	if whole {
		child.Moved = parent.ID
	}
	return child, nil
}

// canCarry returns an error for an interface on which the kernel makes no child of a kind, or on
// which a child reaches nothing.
func canCarry(v *scan.View, kind string, parent link.Interface, layer string) error {
	if kind == config.PartPKey {
		return canJoin(parent, layer)
	}
	if layer != Ethernet {
		return hint.With(fmt.Errorf("%s is not on Ethernet, and carries no %s", parent.Name, kind), `GN343 take part = "pkey", part = "shared" or part = "vf"`)
	}
	if !parent.Up {
		return hint.With(fmt.Errorf("%s is down, and so would a %s of it be", parent.Name, kind), "GN344 ip link set "+parent.Name+" up, before the first job")
	}
	list, err := v.Link.List()
	if err != nil {
		return err
	}
	for _, o := range list {
		switch {
		case o.Index == parent.Master:
			err := fmt.Errorf("%s belongs to %s, and the kernel makes no %s of it", parent.Name, o.Name, kind)
			return hint.With(err, "GN345 the bond as a whole can have slots, if it is an RDMA device (RoCE LAG): match that")
		case o.Parent == parent.Index && o.ID.Kind != kind && (o.ID.Kind == config.PartMacvlan || o.ID.Kind == config.PartIPvlan):
			err := fmt.Errorf("%s carries %s of kind %s, and the kernel makes no %s beside it", parent.Name, o.Name, o.ID.Kind, kind)
			return hint.With(err, fmt.Sprintf("GN346 take part = %q, or remove %s", o.ID.Kind, o.Name))
		}
	}
	return nil
}

// canJoin returns an error for an interface on which the kernel makes none for a partition, or on
// which such a one reaches nothing.
func canJoin(parent link.Interface, layer string) error {
	switch {
	case layer != InfiniBand:
		return hint.With(fmt.Errorf("%s is on Ethernet, which has no P_Keys", parent.Name), `GN356 take part = "macvlan", or part = "vf" with a vlan`)
	case !parent.Up:
		err := fmt.Errorf("%s is down, and so would its interface for a P_Key be", parent.Name)
		return hint.With(err, "GN359 ip link set "+parent.Name+" up, before the first job")
	}
	return nil
}

// roomForGIDs returns an error for a port whose table cannot have the GIDs of all slots. Which GIDs are
// those of the node's own interface its addresses say: in /sys the interfaces of other jobs' slots have
// the same name.
func roomForGIDs(v *scan.View, d scan.Device, p scan.Port, e gres.Entry) error {
	table, err := v.GIDTable(d, p.Num)
	if err != nil {
		return fmt.Errorf("read the GIDs of %s port %d: %w", d.Name, p.Num, err)
	}
	own, _, _, err := address.Read(v.Link.Route, p.Interface.Index)
	if err != nil {
		return fmt.Errorf("read the addresses of %s: %w", p.Interface.Name, err)
	}
	addresses := 0
	if e.Network.IsValid() {
		addresses++
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil { // the kernel has IPv6, and so makes a link-local one
		addresses++
	}
	return fits(fmt.Sprintf("%s port %d", d.Name, p.Num), table, len(own), addresses, e.Slot.Of)
}

// fits returns an error if a table is too short for the GIDs of a port's own interface and of slots.
func fits(port string, table sysfs.GIDTable, own, addresses, slots int) error {
	own, each := max(own, 1)*table.Kinds, addresses*table.Kinds
	if each == 0 || own+slots*each <= table.Length {
		return nil
	}
	err := fmt.Errorf("%s has room for %d GIDs: its own interface needs %d, and each of %d slots %d", port, table.Length, own, slots, each)
	return hint.With(err, fmt.Sprintf("GN361 lower count in [[hca]] to %d", max(table.Length-own, 0)/each))
}

// slotAddress returns a slot's address: the host's part of the parent's address, times the number of
// slots, plus the slot's number. So no two slots of a network have the same, and no node needs to
// ask another.
func slotAddress(parent string, list []address.Address, network netip.Prefix, s gres.Slot) (netip.Prefix, error) {
	for _, a := range list {
		own := a.Addr()
		if !own.Addr().Is4() || !a.Reachable() {
			continue
		}
		host := uint64(number(own.Addr()) - number(own.Masked().Addr()))
		offset := host*uint64(s.Of) + uint64(s.Number)
		if most := uint64(1) << (32 - network.Bits()); offset+1 >= most || offset == 0 {
			err := fmt.Errorf("network %s has no address for slot %d of %d on %s, whose address is %s", network, s.Number, s.Of, parent, own)
			return netip.Prefix{}, hint.With(err, "GN347 take a network with as many addresses as that of "+parent+" has, times count")
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], number(network.Addr())+uint32(offset))
		return netip.PrefixFrom(netip.AddrFrom4(b), network.Bits()), nil
	}
	err := errors.New(parent + " has no IPv4 address, from which the addresses of slots follow")
	return netip.Prefix{}, hint.With(err, "GN348 give it one, or leave network out of [[hca]]")
}

// number is an IPv4 address as a number.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// longestName is how many letters the name of an interface has at most (IFNAMSIZ).
const longestName = 15

// nameChildren gives the interfaces that gresnet makes for a job names of their own. The first has
// the name of the interface below it, as one that moves to the job has.
func nameChildren(hcas []plan.HCA) {
	taken := map[string]bool{}
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			taken[s.Settings.Name] = taken[s.Settings.Name] || !h.Keep
		}
	}
	for _, h := range hcas {
		for _, c := range h.Children {
			name := c.Name
			for n := 1; taken[name]; n++ {
				suffix := fmt.Sprintf("_%d", n)
				name = c.Name[:min(len(c.Name), longestName-len(suffix))] + suffix
			}
			c.Name, c.Link.Name, taken[name] = name, name, true
		}
	}
}
