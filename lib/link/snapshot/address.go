package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
)

// IsReachable tells whether an interface has an address that is not link-local.
func (c *Conn) IsReachable(index int) (bool, error) {
	list, _, _, err := inet.ReadAddresses(c.Route, index)
	return slices.ContainsFunc(list, inet.Address.Reachable), err
}

func (c *Conn) giveAddresses(index int, want Settings) error {
	have, duplicates, _, err := inet.ReadAddresses(c.Route, index)
	if err != nil {
		return fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	have = append(have, duplicates...)
	for _, m := range netlink.Missing(have, slices.Concat(want.Addresses, want.Duplicates), inet.Address.Key) {
		if err := inet.RemoveAddress(c.Route, index, m, want.Name); err != nil {
			return err
		}
	}
	for _, m := range inet.AddressesInOrder(netlink.Missing(want.Addresses, have, inet.Address.Key)) {
		lost, err := c.lostCarrier(index, m, want)
		if lost {
			err = inet.GiveAddress(c.Route, index, m.Untested(), want.Name)
		}
		if err = hint.Join(err, inet.GiveAddress(c.Route, index, m, want.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Joins tells whether the interface has, or one on it, addresses for LeaveGroups to remove.
func (s Settings) Joins() bool {
	return slices.ContainsFunc(s.Addresses, inet.Address.Joins) ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.Joins() })
}

// LeaveGroups removes the addresses with which the kernel joined their groups. It does so
// by a socket of the namespace's, which leaves a group only when somebody removes the address, and
// not when the interface leaves: the address could not be given again (igmp.c:ip_mc_autojoin_config).
func (c *Conn) LeaveGroups(index int, s Settings) error {
	for _, m := range s.Addresses {
		if !m.Joins() {
			continue
		}
		if err := inet.RemoveAddress(c.Route, index, m, s.Name); err != nil {
			return err
		}
	}
	for _, child := range s.Children {
		i, err := c.findChild(index, child)
		if errors.Is(err, link.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.LeaveGroups(i.Index, child.Settings); err != nil {
			return err
		}
	}
	return nil
}

// lostCarrier tells whether an address would wait for its test for duplicates, since the
// interface does not have the carrier that it had.
func (c *Conn) lostCarrier(index int, m inet.Address, want Settings) (bool, error) {
	if !want.Running || m.Family() != unix.AF_INET6 {
		return false, nil
	}
	i, err := c.Get(index)
	return err == nil && !i.Running, err
}

// awaitDAD waits until the kernel has taken the IPv6 addresses for good. Only then it gives an
// address its local route and, where the interface forwards, that of all routers of its network. It
// does so in a work queue of its own, also for an address that is not to be tested and so is never
// tentative (addrconf.c:addrconf_dad_work).
func (c *Conn) awaitDAD(index int, want Settings) error {
	local := slices.DeleteFunc(slices.Clone(want.Routes), func(m inet.Route) bool {
		return !m.IsLocalIPv6() && (!comesWithAny(m, want.Addresses) || want.leftOver(m))
	})
	begun, looked := time.Now(), false
	taken, err := c.Budget.Until(poll.Addresses, func() (bool, error) {
		taken, err := c.hasTaken(index, want, local)
		if taken || err != nil || looked {
			return taken, err
		}
		looked = true
		i, err := c.Get(index)
		return !i.Running, err // without a carrier the kernel does not begin
	})
	if taken || err != nil {
		return err
	}
	if i, err := c.Get(index); err != nil || !i.Running {
		return err // it lost it meanwhile
	}
	return fmt.Errorf("wait for the addresses of %s: the kernel has not taken all after %.1fs", want.Name, time.Since(begun).Seconds())
}

// applyToken gives the IPv6 token. An interface without ARP has ARP for that moment, in which an address that the kernel
// takes would join its group, as none does without ARP (addrconf.c:addrconf_join_solict).
func applyToken(c *Conn, g *giving) error {
	if g.want.Flags&unix.IFF_NOARP != 0 && !bytes.Equal(g.i.Token, g.want.Token) {
		withoutRoutes := g.want
		withoutRoutes.Routes = nil
		if err := c.awaitDAD(g.i.Index, withoutRoutes); err != nil {
			return err
		}
	}
	return c.ApplyToken(g.i, g.want.Own, g.want.Token)
}

// hasTaken tells whether no address is tested any more, but for duplicates, and the
// routes that come with them are there.
func (c *Conn) hasTaken(index int, want Settings, local []inet.Route) (bool, error) {
	answers, err := inet.DumpAddresses(c.Route, index)
	if err != nil {
		return false, fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	for _, a := range answers {
		if !inet.Tentative(a) {
			continue
		}
		m, err := inet.CleanAddress(a)
		if err != nil || len(want.duplicatesIn([]inet.Address{m})) == 0 {
			return false, err
		}
	}
	if len(local) == 0 {
		return true, nil
	}
	have, err := inet.ReadLocalRoutes(c.Route, index, local)
	if err != nil {
		return false, fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	return len(netlink.Missing(local, have, inet.Route.Key)) == 0, nil
}
