package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/link"
	"gresnet/lib/netlink"
	"gresnet/lib/nft"
	"gresnet/lib/tc"
	"gresnet/lib/tipc"
)

// refuse says why an interface that has these settings could not be put back
// as it is, if it could not.
func (c *Conn) refuse(i link.Described, s Settings) error {
	if err := c.refuseMaster(i); err != nil {
		return err
	}
	if attached(i.List) {
		return fmt.Errorf("%s has an XDP program attached, which gresnet cannot restore", s.Name)
	}
	if err := c.refuseChildren(i.Interface); err != nil {
		return err
	}
	if err := c.refuseBearer(s.Name); err != nil {
		return err
	}
	if err := s.refusePrograms(); err != nil {
		return err
	}
	if err := c.refuseHooked(s); err != nil {
		return err
	}
	nameOf := func(index int) (string, error) {
		i, err := c.Get(index)
		return i.Name, err
	}
	if err := tc.RefuseMirrors(c.Route, s.Name, s.Mirrors, nameOf); err != nil {
		return err
	}
	return tc.RefuseQdiscs(c.Route, i.Index, s.Name, s.Qdiscs, func() (int, bool, error) { return c.sending(i.Interface) })
}

// refusePrograms refuses routes that a BPF program encapsulates. The kernel tells only the
// program's name (lwt_bpf.c:bpf_fill_encap_info), so nobody can load it again.
func (s Settings) refusePrograms() error {
	for _, m := range slices.Concat(s.Routes, s.HomeRoutes) {
		if m.HasProgram() {
			return fmt.Errorf("a BPF program encapsulates what route %s of %s takes, and gresnet cannot restore it", m, s.Name)
		}
	}
	for _, m := range s.Nexthops {
		if m.HasProgram() {
			return fmt.Errorf("a BPF program encapsulates what next hop object %s of %s takes, and gresnet cannot restore it", m, s.Name)
		}
	}
	for _, child := range s.Children {
		if err := child.Settings.refusePrograms(); err != nil {
			return err
		}
	}
	return nil
}

// refuseMaster refuses a bond's slave, a bridge's port and the like: leaving
// undoes what the master may not survive (bond_main.c:bond_release_and_destroy).
func (c *Conn) refuseMaster(i link.Described) error {
	if i.Master == 0 {
		return nil
	}
	master, err := c.Get(i.Master)
	if err != nil {
		return fmt.Errorf("read the master of %s: %w", i.Name, err)
	}
	return fmt.Errorf("%s belongs to %s %s, to which gresnet cannot give it back", i.Name, master.ID.Kind, master.Name)
}

// attached tells whether an XDP program is attached, in whichever mode.
func attached(list netlink.Attributes) bool {
	inner, _ := list.Nested(unix.IFLA_XDP)
	mode := inner.Value(unix.IFLA_XDP_ATTACHED)
	return len(mode) == 1 && mode[0] != 0
}

// refuseChildren refuses what stands on the interface and is no child that comes back with it.
func (c *Conn) refuseChildren(i link.Interface) error {
	children, err := c.Children(i.Index)
	if err != nil {
		return err
	}
	bound, err := c.Bound(i)
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
		if slices.ContainsFunc(children, func(c link.Interface) bool { return c.Index == index }) {
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

// refuseBearer refuses an interface that TIPC has for a bearer: TIPC lets go when the interface leaves,
// and nothing tells it to come back (bearer.c:tipc_l2_device_event).
func (c *Conn) refuseBearer(name string) error {
	all, err := link.Remembered(c.Conn, "bearers of TIPC", tipc.Interfaces)
	if err != nil {
		return err
	}
	if slices.Contains(all, name) {
		return fmt.Errorf("TIPC has a bearer on %s, which gresnet cannot restore", name)
	}
	return nil
}

// refuseHooked refuses what a chain of nftables sees at the interface's own ends, or a flowtable
// takes packets from: the kernel removes the interface from it, and the last one with the
// chain (nf_tables_api.c, nft_chain_filter.c).
func (c *Conn) refuseHooked(s Settings) error {
	all, err := c.hooked()
	if err != nil {
		return fmt.Errorf("read the chains of nftables that name %s: %w", s.Name, err)
	}
	for _, h := range all {
		if slices.Contains(h.Devices, s.Name) {
			return fmt.Errorf("%s is in %s %s of the nftables table %s, to which gresnet cannot give it back", s.Name, h.What, h.Name, h.Table)
		}
	}
	return nil
}

// hooked are all of the namespace.
func (c *Conn) hooked() ([]nft.Hooked, error) {
	return link.Remembered(c.Conn, "hooked", c.hooks.Read)
}
