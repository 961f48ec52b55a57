package part

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/network/virtual"
)

// slot is a slot of an HCA on Ethernet: the job has the HCA's device nodes together with other jobs, and a
// macvlan or an ipvlan on its interface.
type slot struct{ Whole }

// Read reads which interfaces the slot has in the job.
func (slot) Read(r *Reading) error {
	if err := inSharedMode(r); err != nil || r.Stays {
		return err
	}
	return readChildren(r, func(p scan.Port) (*step.Child, error) {
		parent, err := carrier(r.View, *p.Interface)
		if err != nil {
			return nil, err
		}
		p.Interface = &parent
		if err := canCarry(r.View, r.Entry.Part, parent, p.LinkLayer); err != nil {
			return nil, err
		}
		c, err := readChild(r, p, r.Entry.Part)
		if err == nil {
			err = roomForGIDs(r.View, r.Device, p, r.Entry)
		}
		return c, err
	})
}

// inSharedMode returns an error where the kernel lets one network namespace open an HCA.
func inSharedMode(r *Reading) error {
	e := r.Entry
	switch {
	case r.Mode != rdma.Exclusive:
		return nil
	case e.Kind().WholeIfOne:
		err := fmt.Errorf("part = %q with count = %d is for the shared RDMA netns mode, and the node is in exclusive mode", e.Part, e.Slot.Of)
		return hint.With(err, `GN362 take count = 1: a job then gets the whole HCA, and an interface for its partition; or put the node into shared mode ([rdma] mode)`)
	}
	err := fmt.Errorf("part = %q is for the shared RDMA netns mode, and the node is in exclusive mode", e.Part)
	return hint.With(err, `GN341 put the node into shared mode ([rdma] mode), or take part = "vf": the kernel lets only one network namespace open an HCA`)
}

// readChildren reads which interfaces gresnet makes for the job on those of the HCA. An error is why no
// job can have them.
func readChildren(r *Reading, read func(scan.Port) (*step.Child, error)) error {
	h := r.HCA
	for _, p := range h.Ports {
		if _, in := h.PKeys[p.Num]; p.Interface == nil || len(h.PKeys) > 0 && !in {
			continue
		}
		c, err := read(p)
		if err != nil {
			return err
		}
		h.Children = append(h.Children, c)
	}
	if len(h.Children) == 0 {
		return hint.With(fmt.Errorf("%s has no network interface on the node", r.Entry.HCA.Name), `GN342 take part = "shared", which gives jobs no interface`)
	}
	return nil
}

// readChild returns the interface of a kind that a part has on that of a port.
func readChild(r *Reading, p scan.Port, kind string) (*step.Child, error) {
	e, parent := r.Entry, *p.Interface
	slot, whole := gres.Slot{Of: 1}, e.Slot == nil
	if !whole {
		slot = *e.Slot
	}
	c := virtual.Child{Kind: kind, Name: parent.Name, Index: virtual.ChildIndex(e.Place, p.Num, slot.Number)}
	switch kind {
	case macvlan:
		c.MAC = virtual.ChildMAC(parent.MAC, slot.Number)
	case virtual.IPoIB:
		c.PKey = e.PKey
	}
	if kind != virtual.IPoIB {
		var err error
		if c.ARP, err = virtual.ReadARP(parent.Name); err != nil {
			return nil, err
		}
	}
	if whole && !e.Keep {
		suffix := fmt.Sprintf(".%04x", uint16(e.PKey)) // as people name it
		c.Name = parent.Name[:min(len(parent.Name), link.LongestName-len(suffix))] + suffix
	}
	if e.Network.IsValid() {
		list, _, _, err := inet.ReadAddresses(r.View.Link.Route, parent.Index)
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

// The kinds of interfaces that the kernel makes on those of Ethernet, one kind on each.
const macvlan, ipvlan = "macvlan", "ipvlan"

// carrier returns the interface on which slots of an HCA's stand: itself, or its bond if the HCA has the whole
// bond. Of such a RoCE LAG, mlx5 says that one of the two slaves is the port's interface, and the other one's
// function has no RDMA device any more (mlx5/core/lag/lag.c:mlx5_do_bond).
func carrier(v *scan.View, own link.Interface) (link.Interface, error) {
	if own.Master == 0 {
		return own, nil
	}
	bond, err := v.Link.Get(own.Master)
	if err != nil {
		return link.Interface{}, fmt.Errorf("read the master of %s: %w", own.Name, err)
	}
	if bond.ID.Kind != "bond" {
		return own, nil
	}
	list, err := v.Link.List()
	if err != nil {
		return link.Interface{}, err
	}
	for _, other := range list {
		if other.Master != bond.Index || other.Index == own.Index {
			continue
		}
		hca, err := v.HCAOf(other.ID)
		if err != nil {
			return link.Interface{}, err
		}
		if hca != (node.ID{}) {
			return link.Interface{}, refuseBond(own.Name, other.Name, bond.Name)
		}
	}
	return bond, nil
}

// refuseBond says why no slots stand on a bond of two HCAs.
func refuseBond(name, other, bond string) error {
	err := fmt.Errorf("%s and %s belong to %s, and are interfaces of two HCAs, which the bond does not join", name, other, bond)
	return hint.With(err, "GN670 have the driver make one HCA of both (RoCE LAG), or match an HCA whose interface belongs to no bond")
}

// refuseLayer returns an error for an interface on whose link layer the kernel makes no child of a kind; nil if it does.
func refuseLayer(name, layer, kind string) error {
	if layer == node.Ethernet {
		return nil
	}
	return hint.With(fmt.Errorf("%s is not on Ethernet, and carries no %s", name, kind), `GN343 take part = "pkey", part = "shared" or part = "vf"`)
}

// canCarry returns an error for an interface on which the kernel makes no child of a kind, or on
// which a child reaches nothing.
func canCarry(v *scan.View, kind string, parent link.Interface, layer string) error {
	if err := refuseLayer(parent.Name, layer, kind); err != nil {
		return err
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
			return hint.With(err, "GN345 take it out of "+o.Name)
		case o.Parent == parent.Index && o.ID.Kind != kind && (o.ID.Kind == macvlan || o.ID.Kind == ipvlan):
			err := fmt.Errorf("%s carries %s of kind %s, and the kernel makes no %s beside it", parent.Name, o.Name, o.ID.Kind, kind)
			return hint.With(err, fmt.Sprintf("GN346 take part = %q, or remove %s", o.ID.Kind, o.Name))
		}
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
	own, _, _, err := inet.ReadAddresses(v.Link.Route, p.Interface.Index)
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
func slotAddress(parent string, list []inet.Address, network netip.Prefix, s gres.Slot) (netip.Prefix, error) {
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

// number returns an IPv4 address as a number.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// shared is the kind of slots without an interface.
type shared struct{ Whole }

// Read reads nothing.
func (shared) Read(r *Reading) error { return inSharedMode(r) }
