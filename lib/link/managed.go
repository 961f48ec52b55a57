package link

import (
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// RaiseUnmanaged is Raise at home without what the interface's manager gives it, and
// without what may need that.
func (c *Conn) RaiseUnmanaged(index int, want Settings) (finish func() error, err error) {
	return c.raise(index, want, c.applyUnmanaged)
}

// AcceptManaged returns the settings that the interface is to have after its manager
// (NetworkManager, systemd-networkd) has configured it. Addresses are the manager's alone, and so are the routes, rules and
// next hop objects that say to be of a manager's making: these are as the
// interface has them now. What others made stays as it was, unless the addresses
// differ, on which it depends. diff is what the manager gives otherwise than before.
func (c *Conn) AcceptManaged(index int, want Settings) (agreed Settings, diff []string, err error) {
	defer c.anew()()
	have, err := c.snapshot(index, want.Sysctls)
	if err != nil {
		return Settings{}, nil, err
	}
	if want, err = c.located(want.aged()); err != nil {
		return Settings{}, nil, err
	}
	have.Routes = want.settledRoutes(have)
	agreed = want
	agreed.Taken = have.Taken
	agreed.Addresses, agreed.Duplicates = have.Addresses, with(have.Duplicates, want.duplicatesIn(have.Addresses), Message.addrKey)
	diff = addressDifferences(have, want)
	if len(diff) > 0 {
		agreed.Neighbours, agreed.Rules = have.Neighbours, have.Rules
		agreed.Nexthops, agreed.HomeNexthops = have.Nexthops, have.HomeNexthops
		agreed.Routes, agreed.HomeRoutes = have.Routes, have.HomeRoutes
		return agreed, append(diff, netlink.Differences("route", have.Routes, want.Routes, Message.routeKey, Message.prefix)...), nil
	}
	agreed.Neighbours = with(have.Neighbours, want.Neighbours, Message.key)
	agreed.HomeNexthops = with(have.HomeNexthops, want.HomeNexthops, Message.key)
	agreed.HomeRoutes = with(have.HomeRoutes, want.HomeRoutes, Message.routeKey)

	concede := func(what string, have, want []Message, protocol func(Message) byte, key, name func(Message) string) []Message {
		others, own := byManagers(want, protocol)
		_, given := byManagers(have, protocol)
		diff = append(diff, netlink.Differences(what, given, own, key, name)...)
		return with(have, others, key)
	}
	agreed.Nexthops = concede("next hop object", have.Nexthops, want.Nexthops, Message.nexthopProtocol, Message.key, Message.nexthop)
	agreed.Routes = concede("route", have.Routes, want.Routes, Message.routeProtocol, Message.routeKey, Message.prefix)
	agreed.Rules = concede("policy rule", have.Rules, want.Rules, Message.ruleProtocol, Message.key, Message.rule)
	return agreed, diff, nil
}

// with is a list with what it lacks of another.
func with(list, more []Message, key func(Message) string) []Message {
	return append(slices.Clone(list), netlink.Missing(more, list, key)...)
}

// byManagers parts what managers make, and the kernel for their addresses, from
// what others make: by the protocol that each says it is of (rtnetlink(7)).
func byManagers(list []Message, protocol func(Message) byte) (others, own []Message) {
	for _, m := range list {
		switch protocol(m) {
		case unix.RTPROT_REDIRECT, unix.RTPROT_KERNEL, unix.RTPROT_STATIC, unix.RTPROT_RA, unix.RTPROT_DHCP:
			own = append(own, m)
		default:
			others = append(others, m)
		}
	}
	return others, own
}

func (m Message) routeProtocol() byte   { return m[5] } // rtm_protocol
func (m Message) nexthopProtocol() byte { return m[2] } // nh_protocol

func (m Message) ruleProtocol() byte {
	list, _ := netlink.Parse(m[ruleHead:])
	if v := list.Value(unix.FRA_PROTOCOL); len(v) == 1 {
		return v[0]
	}
	return unix.RTPROT_UNSPEC
}
