package snapshot

import (
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/inet"
)

// AcceptManaged returns the settings that the interface is to have after its manager
// (NetworkManager, systemd-networkd) has configured it. Addresses are the manager's alone, and so are the routes, rules and
// next hop objects that say to be of a manager's making: these are as the
// interface has them now. What others made stays as it was, unless the addresses
// differ, on which it depends. diff is what the manager gives otherwise than before.
func (c *Conn) AcceptManaged(index int, want Settings) (agreed Settings, diff []string, err error) {
	defer c.AskAgain()()
	have, err := c.snapshot(index, false)
	if err != nil {
		return Settings{}, nil, err
	}
	if want, err = c.located(want.aged().lessDaemons()); err != nil {
		return Settings{}, nil, err
	}
	have = have.lessDaemons()
	have.Routes = want.settledRoutes(have)
	agreed = want
	agreed.Taken = have.Taken
	agreed.Addresses, agreed.Duplicates = have.Addresses, netlink.With(have.Duplicates, want.duplicatesIn(have.Addresses), inet.Address.Key)
	diff = addressDifferences(have, want)
	if len(diff) > 0 {
		agreed.Neighbours, agreed.Rules = have.Neighbours, have.Rules
		agreed.Nexthops, agreed.NodeNexthops = have.Nexthops, have.NodeNexthops
		agreed.Routes, agreed.NodeRoutes = have.Routes, have.NodeRoutes
		return agreed, append(diff, netlink.Differences("route", have.Routes, want.Routes, inet.Route.Key, inet.Route.String)...), nil
	}
	agreed.Neighbours = netlink.With(have.Neighbours, want.Neighbours, netlink.Key)
	agreed.NodeNexthops = netlink.With(have.NodeNexthops, want.NodeNexthops, inet.Nexthop.Key)
	agreed.NodeRoutes = netlink.With(have.NodeRoutes, want.NodeRoutes, inet.Route.Key)

	agreed.Nexthops, diff = netlink.Concede(diff, "next hop object", have.Nexthops, want.Nexthops, inet.Nexthop.Protocol, inet.Nexthop.Key, inet.Nexthop.String)
	agreed.Routes, diff = netlink.Concede(diff, "route", have.Routes, want.Routes, inet.Route.Protocol, inet.Route.Key, inet.Route.String)
	agreed.Rules, diff = netlink.Concede(diff, "policy rule", have.Rules, want.Rules, inet.Rule.Protocol, netlink.Key, inet.Rule.String)
	return agreed, diff, nil
}
