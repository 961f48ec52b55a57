package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
	"gresnet/lib/link/tc"
)

// refuse says why an interface that has these settings could not be put back
// as it is, if it could not.
func (c *Conn) refuse(i link.Described, s Settings) error {
	if err := c.Refuse(i); err != nil {
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

// hooked returns all of the namespace.
func (c *Conn) hooked() ([]nft.Hooked, error) {
	return link.Remembered(c.Conn, "hooked", c.hooks.Read)
}
