package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link"
	"gresnet/lib/link/address"
	"gresnet/lib/link/route"
	"gresnet/lib/words/hint"
)

// Shared has settings that an interface at home shares with others that are not home yet.
// RestoreShared restores them when all are there.
type Shared struct {
	ID           link.ID           `json:"id"`
	Name         string            `json:"name"`
	Taken        time.Duration     `json:"taken"`
	Addresses    []address.Address `json:"addresses,omitempty"` // by which others' routes from them are known
	Routes       []route.Route     `json:"routes,omitempty"`    // from others' addresses
	HomeNexthops []route.Nexthop   `json:"home_nexthops,omitempty"`
	HomeRoutes   []route.Route     `json:"home_routes,omitempty"`
	Others       []Other           `json:"others"`
}

// Without parts the settings: left needs none of the others, and shared has the rest.
func (s Settings) Without(others []Other) (left Settings, shared Shared) {
	left = s
	isGroup, isRoute := s.needing(others)
	shared = Shared{Name: s.Name, Taken: s.Taken, Addresses: s.Addresses}
	shared.HomeNexthops, left.HomeNexthops = netlink.Part(s.HomeNexthops, isGroup)
	shared.HomeRoutes, left.HomeRoutes = netlink.Part(s.HomeRoutes, isRoute)
	shared.Routes, left.Routes = netlink.Part(s.Routes, isRoute)
	for _, o := range s.Others {
		isGroup, isRoute := s.needing([]Other{o})
		if slices.ContainsFunc(shared.HomeNexthops, isGroup) || slices.ContainsFunc(slices.Concat(shared.Routes, shared.HomeRoutes), isRoute) {
			shared.Others = append(shared.Others, o)
		}
	}
	left.owed = shared
	return left, shared
}

// lessOwed returns the settings of an interface without those that it is owed, and need not have yet.
func (want Settings) lessOwed(have Settings) Settings {
	owes := func(owed, m route.Nexthop) bool { return owed.Key() == m.Key() || owed.HasMoreThan(m) }
	have.Nexthops = netlink.Less(have.Nexthops, want.owed.HomeNexthops, owes)
	have.HomeNexthops = netlink.Less(have.HomeNexthops, want.owed.HomeNexthops, owes)
	have.Routes, have.HomeRoutes = want.lessOwedRoutes(have.Routes), want.lessOwedRoutes(have.HomeRoutes)
	return have
}

func (want Settings) lessOwedRoutes(have []route.Route) []route.Route {
	owes := func(owed, m route.Route) bool { return owed.Key() == m.Key() || owed.HasMoreThan(m) }
	return netlink.Less(have, slices.Concat(want.owed.HomeRoutes, want.owed.Routes), owes)
}

// needing returns functions that tell which groups of next hop objects and which routes need one of
// the others.
func (s Settings) needing(others []Other) (isGroup func(route.Nexthop) bool, isRoute func(route.Route) bool) {
	var indices []int
	var objects []uint32
	var sources []netip.Addr
	for _, o := range others {
		indices, objects, sources = append(indices, o.Index), append(objects, o.Objects...), append(sources, o.Sources...)
	}
	isGroup = func(m route.Nexthop) bool {
		return slices.ContainsFunc(m.Members(), func(id uint32) bool { return slices.Contains(objects, id) })
	}
	var groups []uint32
	for _, m := range s.HomeNexthops {
		if isGroup(m) {
			groups = append(groups, m.ID())
		}
	}
	return isGroup, func(m route.Route) bool {
		needs := slices.Contains(append(groups, objects...), m.Object()) || slices.Contains(sources, route.Source(m))
		m.EachIndex(func(b []byte) { needs = needs || slices.Contains(indices, int(native.Uint32(b))) })
		return needs
	}
}

// What names the settings.
func (o Shared) What() []string {
	return namesOf(o.HomeNexthops, slices.Concat(o.HomeRoutes, o.Routes))
}

func namesOf(groups []route.Nexthop, routes []route.Route) (list []string) {
	for _, m := range groups {
		list = append(list, "next hop object "+m.String())
	}
	for _, m := range routes {
		list = append(list, "route "+m.String())
	}
	return list
}

// RestoreShared restores shared settings. All interfaces that share them must be there. It leaves a group or a route to
// which others have given more members since.
func (c *Conn) RestoreShared(o Shared) error {
	defer c.Anew()()
	i, err := c.Find(o.ID)
	if err != nil {
		return err
	}
	want, err := c.located(Settings{
		Own: link.Own{Name: i.Name}, Taken: o.Taken, Addresses: o.Addresses, Routes: o.Routes,
		HomeNexthops: o.HomeNexthops, HomeRoutes: o.HomeRoutes, Others: o.Others,
	}.aged())
	if err != nil {
		return err
	}
	if lacking, err := c.lacking(i.Index, &want); err != nil || len(lacking) == 0 {
		return err
	}
	given := c.giveHomeRoutes(i.Index, want)
	for _, m := range want.Routes {
		if err := route.Give(c.Route, i.Index, m, unix.NLM_F_APPEND); err != nil {
			given = hint.Join(given, fmt.Errorf("add route %s to %s: %w", m, want.Name, err))
		}
	}
	lacking, err := c.lacking(i.Index, &want)
	if err == nil && given == nil && len(lacking) > 0 {
		return fmt.Errorf("%s is missing", strings.Join(lacking, ", "))
	}
	return hint.Join(given, err)
}

// lacking names what an interface lacks of its shared settings, from which it removes those groups and routes that have
// more members on the node.
func (c *Conn) lacking(index int, want *Settings) ([]string, error) {
	own, home, err := c.routes(index, want.homeObjects())
	if err != nil {
		return nil, fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	borrowers, err := c.borrowers(index, want.Addresses)
	if err != nil {
		return nil, fmt.Errorf("read the routes from the addresses of %s: %w", want.Name, err)
	}
	_, groups, err := route.ReadNexthops(c.Route, index)
	if err != nil {
		return nil, fmt.Errorf("read the next hop objects of %s: %w", want.Name, err)
	}
	want.HomeNexthops = netlink.Less(want.HomeNexthops, groups, route.Nexthop.HasMoreThan)
	want.HomeRoutes = netlink.Less(want.HomeRoutes, home, route.Route.HasMoreThan)
	have := slices.Concat(own, home, borrowers)
	return namesOf(netlink.Missing(want.HomeNexthops, groups, route.Nexthop.Key), netlink.Missing(slices.Concat(want.HomeRoutes, want.Routes), have, route.Route.Key)), nil
}
