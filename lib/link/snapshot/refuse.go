package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/sysctl"
	"gresnet/lib/link/tc"
)

// refuse says why an interface that has these settings could not be put back
// as it is, if it could not.
func (c *Conn) refuse(i link.Described, s Settings) error {
	if err := c.Refuse(i); err != nil {
		return err
	}
	if err := s.refuseEncapsulation(); err != nil {
		return err
	}
	if err := c.refuseMPLS(i.Index, s.Name); err != nil {
		return err
	}
	if err := s.refuseOnDaemons(); err != nil {
		return err
	}
	if err := c.refuseAbove(s); err != nil {
		return err
	}
	if err := c.refuseHooked(s); err != nil {
		return err
	}
	if err := c.refuseRoutes(s); err != nil {
		return err
	}
	if err := tc.RefuseMirrors(c.Route, i.Index, s.Name); err != nil {
		return err
	}
	return tc.Refuse(c.Route, i.Index, s.Name)
}

// refuseEncapsulation refuses routes whose encapsulation the kernel does not tell in full.
func (s Settings) refuseEncapsulation() error {
	for _, m := range slices.Concat(s.Routes, s.NodeRoutes) {
		if what := m.Lost(); what != "" {
			return fmt.Errorf("%s encapsulates what route %s of %s takes, and gresnet cannot restore it", what, m, s.Name)
		}
	}
	for _, m := range s.Nexthops {
		if what := m.Lost(); what != "" {
			return fmt.Errorf("%s encapsulates what next hop object %s of %s takes, and gresnet cannot restore it", what, m, s.Name)
		}
	}
	for _, child := range s.Children {
		if err := child.Settings.refuseEncapsulation(); err != nil {
			return err
		}
	}
	return nil
}

// refuseRoutes refuses routes and next hop objects that the kernel would not take again, such as a route whose gateway is
// no longer on a link.
func (c *Conn) refuseRoutes(s Settings) error {
	const again = "the kernel does not take %s %s of %s again, and gresnet could not restore it: %w"
	m, err := inet.RefusedRoute(c.Route, s.Index, slices.Concat(s.Routes, s.NodeRoutes), s.Routes)
	if err != nil {
		return hint.With(fmt.Errorf(again, "route", m, s.Name, err), againHint)
	}
	object, err := inet.RefusedNexthop(c.Route, s.Index, slices.Concat(s.Nexthops, s.NodeNexthops), s.Routes)
	if err != nil {
		return hint.With(fmt.Errorf(again, "next hop object", object, s.Name, err), againHint)
	}
	for _, child := range s.Children {
		child.Settings.Index = child.Index
		if err := c.refuseRoutes(child.Settings); err != nil {
			return err
		}
	}
	return nil
}

// againHint says what to do about what the kernel does not take again.
const againHint = `GN901 remove it, or give the interface the route by which it reaches the gateway`

// refuseMPLS refuses an interface that takes packets with MPLS labels, or to which routes of labels lead. A kernel
// without MPLS would answer with all other routes.
func (c *Conn) refuseMPLS(index int, name string) error {
	const mpls = "/proc/sys/net/mpls"
	if _, err := os.Stat(mpls); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	input, err := sysctl.ReadFile(filepath.Join(mpls, "conf", name, "input"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // not all kinds have it (af_mpls.c:mpls_dev_notify)
		return err
	}
	routes, err := inet.ReadRoutes(c.Route, index, unix.AF_MPLS)
	if err != nil {
		return fmt.Errorf("read the MPLS routes of %s: %w", name, err)
	}
	if len(routes) > 0 || input != "" && input != "0" {
		return fmt.Errorf("%s is used for MPLS, which gresnet cannot restore", name)
	}
	return nil
}

// refuseAbove refuses what stands on the interface's children.
func (c *Conn) refuseAbove(s Settings) error {
	for _, child := range s.Children {
		i, err := c.Get(child.Index)
		if err != nil {
			return err
		}
		if err := hint.Join(c.RefuseAbove(i), child.Settings.refuseOnDaemons()); err != nil {
			return err
		}
		if err := c.refuseAbove(child.Settings); err != nil {
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
			return fmt.Errorf("%s is in %s %s of the nftables table %s, to which gresnet cannot return it", s.Name, h.What, h.Name, h.Table)
		}
	}
	return nil
}

// hooked returns all of the namespace.
func (c *Conn) hooked() ([]nft.Hooked, error) {
	return link.Remembered(c.Conn, "hooked", c.hooks.Read)
}
