package snapshot

import (
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/address"
	"gresnet/lib/netlink"
	"gresnet/lib/route"
	"gresnet/lib/rule"
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
	defer c.Anew()()
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
	agreed.Addresses, agreed.Duplicates = have.Addresses, with(have.Duplicates, want.duplicatesIn(have.Addresses), address.Address.Key)
	diff = addressDifferences(have, want)
	if len(diff) > 0 {
		agreed.Neighbours, agreed.Rules = have.Neighbours, have.Rules
		agreed.Nexthops, agreed.HomeNexthops = have.Nexthops, have.HomeNexthops
		agreed.Routes, agreed.HomeRoutes = have.Routes, have.HomeRoutes
		return agreed, append(diff, netlink.Differences("route", have.Routes, want.Routes, route.Route.Key, route.Route.String)...), nil
	}
	agreed.Neighbours = with(have.Neighbours, want.Neighbours, netlink.Key)
	agreed.HomeNexthops = with(have.HomeNexthops, want.HomeNexthops, route.Nexthop.Key)
	agreed.HomeRoutes = with(have.HomeRoutes, want.HomeRoutes, route.Route.Key)

	agreed.Nexthops, diff = concede(diff, "next hop object", have.Nexthops, want.Nexthops, route.Nexthop.Protocol, route.Nexthop.Key, route.Nexthop.String)
	agreed.Routes, diff = concede(diff, "route", have.Routes, want.Routes, route.Route.Protocol, route.Route.Key, route.Route.String)
	agreed.Rules, diff = concede(diff, "policy rule", have.Rules, want.Rules, rule.Rule.Protocol, netlink.Key, rule.Rule.String)
	return agreed, diff, nil
}

// concede takes what managers make as it is, and what others make as it was. It adds to diff
// what managers make otherwise than before.
func concede[M ~[]byte](diff []string, what string, have, want []M, protocol func(M) byte, key, name func(M) string) (agreed []M, all []string) {
	others, own := byManagers(want, protocol)
	_, given := byManagers(have, protocol)
	return with(have, others, key), append(diff, netlink.Differences(what, given, own, key, name)...)
}

// with is a list with what it lacks of another.
func with[M ~[]byte](list, more []M, key func(M) string) []M {
	return append(slices.Clone(list), netlink.Missing(more, list, key)...)
}

// byManagers parts what managers make, and the kernel for their addresses, from
// what others make: by the protocol that each says it is of (rtnetlink(7)).
func byManagers[M ~[]byte](list []M, protocol func(M) byte) (others, own []M) {
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
