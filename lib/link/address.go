package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/clock"
	"gresnet/lib/hint"
	"gresnet/lib/netlink"
	"gresnet/lib/route"
)

// Flags of an address that a request may set; the others say what the kernel did (linux/if_addr.h).
const addrFlags = unix.IFA_F_NODAD | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR | unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN

const forever = ^uint32(0)

// cleanAddr makes an address as dumped comparable and sendable.
func cleanAddr(m []byte) (Message, error) {
	if len(m) < addrHead {
		return nil, fmt.Errorf("address message of %d bytes", len(m))
	}
	list, err := netlink.Parse(m[addrHead:])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(m[:addrHead])
	out[2] &= addrFlags & 0xff // ifa_flags
	native.PutUint32(out[4:], 0)
	for a := range list.All() {
		v := slices.Clone(a.Value)
		switch a.Kind {
		case unix.IFA_FLAGS:
			if len(v) == 4 {
				native.PutUint32(v, native.Uint32(v)&addrFlags)
			}
		case unix.IFA_CACHEINFO:
			// preferred, valid: seconds that are left; then two time stamps.
			if len(v) == 16 {
				native.PutUint64(v[8:], 0)
			}
		}
		out = netlink.Append(out, a.Kind, v)
	}
	return out, nil
}

// addrOn is an address as a request for the interface with an index.
func (m Message) addrOn(index int) []byte {
	out := slices.Clone([]byte(m))
	native.PutUint32(out[4:], uint32(index))
	return out
}

// tentative tells an address, as dumped, that waits for duplicate address detection.
func tentative(m []byte) bool {
	return len(m) >= addrHead && m[2]&unix.IFA_F_TENTATIVE != 0 && m[2]&unix.IFA_F_DADFAILED == 0
}

// duplicate tells an address, as dumped, that was found to be another's, too. The kernel
// keeps it and does not use it; what has a lifetime it removes (addrconf.c:addrconf_dad_stop).
func duplicate(m []byte) bool { return m[0] == unix.AF_INET6 && m[2]&unix.IFA_F_DADFAILED != 0 }

// lifetime is how long an address is valid still, in seconds; forever is ^0.
func (m Message) lifetime() uint32 { return m.cacheInfo(4) }

// preferred is how long an address is preferred still, in seconds; forever is ^0.
func (m Message) preferred() uint32 { return m.cacheInfo(0) }

func (m Message) cacheInfo(offset int) uint32 {
	list, _ := netlink.Parse(m[addrHead:])
	for a := range list.All() {
		if a.Kind == unix.IFA_CACHEINFO && len(a.Value) == 16 {
			return native.Uint32(a.Value[offset:])
		}
	}
	return forever
}

// addrKey is what makes an address the same address: all but the seconds that
// a lifetime has left, which pass while it is away.
func (m Message) addrKey() string {
	if m.lifetime() == forever && m.preferred() == forever {
		return string(m)
	}
	out := slices.Clone([]byte(m[:addrHead]))
	list, _ := netlink.Parse(m[addrHead:])
	for a := range list.All() {
		if a.Kind != unix.IFA_CACHEINFO {
			out = netlink.Append(out, a.Kind, a.Value)
		}
	}
	return string(out)
}

// Addr is the address that an address message is about.
func (m Message) Addr() netip.Prefix {
	list, _ := netlink.Parse(m[addrHead:])
	var addr netip.Addr
	for a := range list.All() {
		// IFA_LOCAL is the own address where IFA_ADDRESS is a peer's.
		if a.Kind == unix.IFA_LOCAL || a.Kind == unix.IFA_ADDRESS && !addr.IsValid() {
			addr, _ = netip.AddrFromSlice(a.Value)
		}
	}
	return netip.PrefixFrom(addr, int(m[1]))
}

func (c *Conn) dumpAddresses(index int) ([][]byte, error) {
	request := make([]byte, addrHead)
	native.PutUint32(request[4:], uint32(index))
	return c.send(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, request)
}

// addresses are the interface's, and apart from them those that another has, too, and the
// temporary ones, for privacy, that the kernel makes by itself of those that may have
// them: no request can.
func (c *Conn) addresses(index int) (list, duplicates, temporary []Message, err error) {
	answers, err := c.dumpAddresses(index)
	if err != nil {
		return nil, nil, nil, err
	}
	list = make([]Message, 0, len(answers))
	for _, a := range answers {
		m, err := cleanAddr(a)
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case duplicate(a):
			duplicates = append(duplicates, m)
		// The flag has another meaning with IPv4: IFA_F_SECONDARY.
		case m.family() == unix.AF_INET6 && a[2]&unix.IFA_F_TEMPORARY != 0:
			temporary = append(temporary, m)
		default:
			list = append(list, m)
		}
	}
	return list, duplicates, temporary, nil
}

// IsReachable tells whether an interface has an address that is not link-local.
func (c *Conn) IsReachable(index int) (bool, error) {
	list, _, _, err := c.addresses(index)
	return slices.ContainsFunc(list, Message.Reachable), err
}

// Reachable tells whether an address is one that others than neighbors can reach.
func (m Message) Reachable() bool { return !m.Addr().Addr().IsLinkLocalUnicast() }

func (c *Conn) applyAddresses(index int, want Settings) error {
	have, duplicates, _, err := c.addresses(index)
	if err != nil {
		return fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	have = append(have, duplicates...)
	for _, m := range netlink.Missing(have, slices.Concat(want.Addresses, want.Duplicates), Message.addrKey) {
		_, err := c.send(unix.RTM_DELADDR, unix.NLM_F_ACK, 0, m.addrOn(index))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s from %s: %w", m.Addr(), want.Name, err)
		}
	}
	for _, m := range inOrder(netlink.Missing(want.Addresses, have, Message.addrKey)) {
		lost, err := c.lostCarrier(index, m, want)
		if lost {
			err = c.giveAddress(index, m.untested(), want.Name)
		}
		if err = hint.Join(err, c.giveAddress(index, m, want.Name)); err != nil {
			return err
		}
	}
	return nil
}

// joins tells an address with which the kernel joins its group (`ip addr add ... autojoin`).
func (m Message) joins() bool {
	list, _ := netlink.Parse(m[addrHead:])
	flags := list.Value(unix.IFA_FLAGS)
	return len(flags) == 4 && native.Uint32(flags)&unix.IFA_F_MCAUTOJOIN != 0
}

// Joins tells whether the interface has, or one on it, addresses for LeaveGroups to remove.
func (s Settings) Joins() bool {
	return slices.ContainsFunc(s.Addresses, Message.joins) ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.Joins() })
}

// LeaveGroups removes the addresses with which the kernel joined their groups. It does so
// by a socket of the namespace's, which leaves a group only when somebody removes the address, and
// not when the interface leaves: the address could not be given again (igmp.c:ip_mc_autojoin_config).
func (c *Conn) LeaveGroups(index int, s Settings) error {
	for _, m := range s.Addresses {
		if !m.joins() {
			continue
		}
		_, err := c.send(unix.RTM_DELADDR, unix.NLM_F_ACK, 0, m.addrOn(index))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s from %s: %w", m.Addr(), s.Name, err)
		}
	}
	for _, child := range s.Children {
		i, err := c.findChild(index, child)
		if errors.Is(err, ErrNotFound) {
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
func (c *Conn) lostCarrier(index int, m Message, want Settings) (bool, error) {
	if !want.Running || m.family() != unix.AF_INET6 {
		return false, nil
	}
	i, err := c.Get(index)
	return err == nil && !i.Running, err
}

func (c *Conn) giveAddress(index int, m Message, name string) error {
	_, err := c.send(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.addrOn(index))
	if err != nil {
		return fmt.Errorf("add address %s to %s: %w", m.Addr(), name, err)
	}
	return nil
}

// untested is an IPv6 address that the kernel takes without a test for
// duplicates, which without a carrier it would not begin: until one comes, no
// route could have the address as its source. The flag goes when the address is
// given again as it was; that it was taken stays.
func (m Message) untested() Message {
	out := slices.Clone(m)
	out[2] |= unix.IFA_F_NODAD
	list, _ := netlink.Parse(out[addrHead:])
	if flags, ok := list.Find(unix.IFA_FLAGS); ok && len(flags) == 4 {
		native.PutUint32(flags, native.Uint32(flags)|unix.IFA_F_NODAD)
	}
	return out
}

// dadTimeout bounds the wait for duplicate address detection, which a node may
// demand of all its interfaces (net.ipv6.conf.all.accept_dad).
const dadTimeout = 5 * time.Second

// awaitDAD waits until the kernel has taken the IPv6 addresses for good. It
// gives an address its local route only then, in a work queue of its own, and
// so for an address, too, that is never tentative since it is not to be tested
// (addrconf.c:addrconf_dad_work).
func (c *Conn) awaitDAD(index int, want Settings) error {
	local := slices.DeleteFunc(slices.Clone(want.Routes), func(m route.Route) bool { return !m.IsLocalIPv6() })
	begun := time.Now()
	if taken, err := c.hasTaken(index, want, local); taken || err != nil {
		return err
	}
	if i, err := c.Get(index); err != nil || !i.Running {
		return err // without a carrier the kernel does not begin
	}
	for end := begun.Add(dadTimeout); !c.Waits.over(end); clock.Sleep(begun, 2*time.Millisecond) {
		if taken, err := c.hasTaken(index, want, local); taken || err != nil {
			return err
		}
	}
	if i, err := c.Get(index); err != nil || !i.Running {
		return err // it lost it meanwhile
	}
	return fmt.Errorf("wait for the addresses of %s: the kernel has not taken all after %.1fs", want.Name, time.Since(begun).Seconds())
}

// hasTaken tells whether no address is tested any more, but for duplicates, and their
// local routes are there.
func (c *Conn) hasTaken(index int, want Settings, local []route.Route) (bool, error) {
	answers, err := c.dumpAddresses(index)
	if err != nil {
		return false, fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	for _, a := range answers {
		if !tentative(a) {
			continue
		}
		m, err := cleanAddr(a)
		if err != nil || len(want.duplicatesIn([]Message{m})) == 0 {
			return false, err
		}
	}
	if len(local) == 0 {
		return true, nil
	}
	have, err := route.ReadLocal(c.route, index, local)
	if err != nil {
		return false, fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	return len(netlink.Missing(local, have, route.Route.Key)) == 0, nil
}

// inOrder turns the kernel's order into the one in which addresses must be
// given so that the kernel has them in its order again: IPv4 appends, IPv6
// puts the newest first (addrconf.c:ipv6_link_dev_addr).
func inOrder(list []Message) []Message {
	var v4, v6 []Message
	for _, m := range list {
		if m.family() == unix.AF_INET6 {
			v6 = append(v6, m)
		} else {
			v4 = append(v4, m)
		}
	}
	slices.Reverse(v6)
	return append(v4, v6...)
}
