package link

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
)

// Refuse says why an interface could not be put back where it is, if it could not.
func (c *Conn) Refuse(i Described) error {
	if err := c.refuseMaster(i); err != nil {
		return err
	}
	if attached(i.List) {
		return fmt.Errorf("%s has an XDP program attached, which gresnet cannot restore", i.Name)
	}
	if err := c.refuseChildren(i.Interface); err != nil {
		return err
	}
	return c.refuseBearer(i.Name)
}

// refuseMaster refuses a bond's slave, a bridge's port and the like: leaving
// undoes what the master may not survive (bond_main.c:bond_release_and_destroy).
func (c *Conn) refuseMaster(i Described) error {
	if i.Master == 0 {
		return nil
	}
	master, err := c.Get(i.Master)
	if err != nil {
		return fmt.Errorf("read the master of %s: %w", i.Name, err)
	}
	return refuseMaster(i.Name, master.ID.Kind, master.Name)
}

// refuseMaster says why an interface with a master could not be put back.
func refuseMaster(name, kind, master string) error {
	err := fmt.Errorf("%s belongs to %s %s, to which gresnet cannot return it", name, kind, master)
	if kind == "bond" {
		return hint.With(err, `GN671 if both slaves are one HCA (RoCE LAG), let one job have it by part = "ipvlan" and count = 1, or several by slots`)
	}
	return err
}

// attached tells whether an XDP program is attached, in whichever mode.
func attached(list netlink.Attributes) bool {
	inner, _ := list.Nested(unix.IFLA_XDP)
	mode := inner.Value(unix.IFLA_XDP_ATTACHED)
	return len(mode) == 1 && mode[0] != 0
}

// refuseChildren refuses what stands on the interface and is no child that comes back with it.
func (c *Conn) refuseChildren(i Interface) error {
	children, err := c.Children(i.Index)
	if err != nil {
		return err
	}
	bound, err := c.bound(i)
	if err != nil {
		return err
	}
	lost := bound.FCoE
	for _, child := range children {
		if !returns(child) {
			lost = append(lost, child.Name)
		}
	}
	for _, index := range bound.Upper {
		if slices.ContainsFunc(children, func(c Interface) bool { return c.Index == index }) {
			continue
		}
		upper, err := c.Get(index)
		if err != nil {
			return err
		}
		lost = append(lost, upper.Name)
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s stands on %s, and gresnet cannot restore it", strings.Join(lost, ", "), i.Name)
	}
	return nil
}

// RefuseAbove refuses what stands on a child of an interface that moves, and is no child itself, or has the child for a
// port: it loses its carrier with the child, and so what is the kernel's to remove then, like next hop objects. A VRF has
// no carrier to lose.
func (c *Conn) RefuseAbove(child Interface) error {
	children, err := c.Children(child.Index)
	if err != nil {
		return err
	}
	bound, err := c.bound(child)
	if err != nil {
		return err
	}
	if child.Master != 0 && !slices.Contains(bound.Upper, child.Master) {
		bound.Upper = append(bound.Upper, child.Master)
	}
	for _, index := range bound.Upper {
		if slices.ContainsFunc(children, func(c Interface) bool { return c.Index == index }) {
			continue
		}
		upper, err := c.Get(index)
		if err != nil {
			return err
		}
		if upper.ID.Kind != "vrf" {
			return fmt.Errorf("%s %s stands on %s, and gresnet cannot restore what it loses with the carrier", upper.ID.Kind, upper.Name, child.Name)
		}
	}
	return nil
}

// refuseBearer refuses an interface that TIPC has for a bearer: TIPC lets go when the interface leaves,
// and nothing tells it to come back (bearer.c:tipc_l2_device_event).
func (c *Conn) refuseBearer(name string) error {
	all, err := Remembered(c, "bearers of TIPC", bearers)
	if err != nil {
		return err
	}
	if slices.Contains(all, name) {
		return fmt.Errorf("TIPC has a bearer on %s, which gresnet cannot restore", name)
	}
	return nil
}

// returns tells children that outlive the move of what they stand on, or can be
// made again; others, such as VXLAN and MACsec, are destroyed with it.
func returns(i Interface) bool {
	return slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, i.ID.Kind) || i.ID.IsPKeyChild()
}
