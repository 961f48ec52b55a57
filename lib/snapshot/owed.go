package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/address"
	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/netlink"
	"gresnet/lib/route"
)

// Owed is what an interface that came home shares with others that did not yet. It is
// given when all of them are there.
type Owed struct {
	ID           link.ID           `json:"id"`
	Name         string            `json:"name"`
	Taken        time.Duration     `json:"taken"`
	Addresses    []address.Address `json:"addresses,omitempty"` // by which others' routes from them are known
	Routes       []route.Route     `json:"routes,omitempty"`    // from others' addresses
	HomeNexthops []route.Nexthop   `json:"home_nexthops,omitempty"`
	HomeRoutes   []route.Route     `json:"home_routes,omitempty"`
	Others       []Other           `json:"others"`
}

// Without parts the settings: what is left needs none of some others, and the rest is owed.
func (s Settings) Without(others []Other) (left Settings, owed Owed) {
	left = s
	isGroup, isRoute := s.needing(others)
	owed = Owed{Name: s.Name, Taken: s.Taken, Addresses: s.Addresses}
	owed.HomeNexthops, left.HomeNexthops = part(s.HomeNexthops, isGroup)
	owed.HomeRoutes, left.HomeRoutes = part(s.HomeRoutes, isRoute)
	owed.Routes, left.Routes = part(s.Routes, isRoute)
	for _, o := range s.Others {
		isGroup, isRoute := s.needing([]Other{o})
		if slices.ContainsFunc(owed.HomeNexthops, isGroup) || slices.ContainsFunc(slices.Concat(owed.Routes, owed.HomeRoutes), isRoute) {
			owed.Others = append(owed.Others, o)
		}
	}
	return left, owed
}

// needing tells which groups of next hop objects and which routes cannot be without some of
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
		needs := slices.Contains(groups, m.Object()) || slices.Contains(sources, route.Source(m))
		m.EachIndex(func(b []byte) { needs = needs || slices.Contains(indices, int(native.Uint32(b))) })
		return needs
	}
}

// part parts a list in two.
func part[M ~[]byte](list []M, is func(M) bool) (those, others []M) {
	for _, m := range list {
		if is(m) {
			those = append(those, m)
		} else {
			others = append(others, m)
		}
	}
	return those, others
}

// What names what is owed.
func (o Owed) What() []string { return namesOf(o.HomeNexthops, slices.Concat(o.HomeRoutes, o.Routes)) }

func namesOf(groups []route.Nexthop, routes []route.Route) (list []string) {
	for _, m := range groups {
		list = append(list, "next hop object "+m.String())
	}
	for _, m := range routes {
		list = append(list, "route "+m.String())
	}
	return list
}

// Pay gives what is owed. All whose part it is must be there.
func (c *Conn) Pay(o Owed) error {
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
	if unpaid, err := c.unpaid(i.Index, want); err != nil || len(unpaid) == 0 {
		return err
	}
	given := c.applyHomeRoutes(i.Index, want)
	for _, m := range want.Routes {
		if err := route.Give(c.Route, i.Index, m, unix.NLM_F_APPEND); err != nil {
			given = hint.Join(given, fmt.Errorf("add route %s to %s: %w", m, want.Name, err))
		}
	}
	unpaid, err := c.unpaid(i.Index, want)
	if err == nil && given == nil && len(unpaid) > 0 {
		return fmt.Errorf("%s is missing", strings.Join(unpaid, ", "))
	}
	return hint.Join(given, err)
}

// unpaid names what an interface lacks of what was owed to it.
func (c *Conn) unpaid(index int, want Settings) ([]string, error) {
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
	have := slices.Concat(own, home, borrowers)
	return namesOf(netlink.Missing(want.HomeNexthops, groups, netlink.Key), netlink.Missing(slices.Concat(want.HomeRoutes, want.Routes), have, route.Route.Key)), nil
}
