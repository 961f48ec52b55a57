package snapshot

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/link/inet"
)

// Other is another interface of the node that has a part in what one has.
type Other struct {
	Index   int          `json:"index"` // by which routes name it
	ID      link.ID      `json:"id"`
	Name    string       `json:"name,omitempty"`
	Objects []uint32     `json:"objects,omitempty"` // its next hop objects that are in groups
	Sources []netip.Addr `json:"sources,omitempty"` // its addresses that routes are from
}

// Shares tells whether other interfaces have a part in what this one has.
func (s Settings) Shares() bool {
	return len(s.NodeRoutes)+len(s.NodeNexthops) > 0 ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.Shares() })
}

// readOthers reads which interfaces have a part in the routes that were read.
func readOthers(c *Conn, r *reading) (err error) {
	var p parties
	s := r.s.lessDaemons()
	for _, m := range s.NodeRoutes {
		m.EachIndex(func(b []byte) { p.at(int(native.Uint32(b))) })
	}
	if err := c.owners(&p, s); err != nil {
		return err
	}
	if err := c.sources(&p, r.i.Index, s); err != nil {
		return err
	}
	r.s.Others, err = p.known(c)
	return err
}

// parties are others, as far as they are seen already.
type parties []Other

// at returns the party with an index, and adds one that is new. With index 0 it returns an empty one.
func (p *parties) at(index int) *Other {
	n := slices.IndexFunc(*p, func(o Other) bool { return o.Index == index })
	if n < 0 && index != 0 {
		n, *p = len(*p), append(*p, Other{Index: index})
	}
	if n < 0 {
		return new(Other)
	}
	return &(*p)[n]
}

// known returns those that are there, with what identifies them.
func (p parties) known(c *Conn) (list []Other, err error) {
	for _, o := range p {
		i, err := c.Get(o.Index)
		if errors.Is(err, link.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o.ID, o.Name = i.ID, i.Name
		list = append(list, o)
	}
	return list, nil
}

// owners adds whose the members of shared groups are, and the objects that routes from an address of this one use.
func (c *Conn) owners(p *parties, s Settings) error {
	for _, id := range inet.OthersNexthops(s.Nexthops, s.NodeNexthops, s.NodeRoutes) {
		indices, err := inet.NexthopOwners(c.Route, id)
		if err != nil {
			return err
		}
		for _, index := range indices {
			o := p.at(index)
			o.Objects = append(o.Objects, id)
		}
	}
	return nil
}

// Sharing says what an interface, or one that stands on it, shares with another one.
type Sharing struct {
	With Other
	What string // names it for people
}

// Sharings lists what the interface, and what stands on it, shares with others. Of a route from an address that is not
// on the node it does not say with whom.
func (s Settings) Sharings() (list []Sharing) {
	for _, o := range s.Others {
		if what := s.sharedWith(o); what != "" {
			list = append(list, Sharing{o, what})
		}
	}
	for _, from := range s.foreign() {
		// The kernel removes an IPv4 route with its source, and takes any of some ranges for one.
		if from.Is6() {
			list = append(list, Sharing{Other{Sources: []netip.Addr{from}}, s.from(from)})
		}
	}
	for _, child := range s.Children {
		list = append(list, child.Settings.Sharings()...)
	}
	return list
}

// sharedWith names the first group or route that another interface has a part in.
func (s Settings) sharedWith(o Other) string {
	s = s.lessDaemons()
	for _, m := range s.NodeNexthops {
		if slices.ContainsFunc(m.Members(), func(id uint32) bool { return slices.Contains(o.Objects, id) }) {
			return fmt.Sprintf("next hop object %s of %s", m, s.Name)
		}
	}
	for _, m := range slices.Concat(s.NodeRoutes, s.Routes) {
		needs := m.UsesAny(o.Objects) || slices.Contains(o.Sources, inet.RouteSource(m))
		m.EachIndex(func(b []byte) { needs = needs || int(native.Uint32(b)) == o.Index })
		if needs {
			return fmt.Sprintf("route %s of %s", m, s.Name)
		}
	}
	return ""
}

// from names the first route from an address.
func (s Settings) from(source netip.Addr) string {
	for _, m := range s.lessDaemons().Routes {
		if inet.RouteSource(m) == source {
			return fmt.Sprintf("route %s of %s", m, s.Name)
		}
	}
	return ""
}

// foreign returns the addresses that routes are from, and that neither the interface has nor any of the others.
func (s Settings) foreign() (list []netip.Addr) {
	for _, m := range s.lessDaemons().Routes {
		from := inet.RouteSource(m)
		known := !from.IsValid() || slices.Contains(list, from) ||
			slices.ContainsFunc(slices.Concat(s.Addresses, s.Duplicates), func(a inet.Address) bool { return a.Addr().Addr() == from }) ||
			slices.ContainsFunc(s.Others, func(o Other) bool { return slices.Contains(o.Sources, from) })
		if !known {
			list = append(list, from)
		}
	}
	return list
}

// sources adds whose the foreign addresses are.
func (c *Conn) sources(p *parties, index int, s Settings) error {
	foreign := s.foreign()
	if len(foreign) == 0 {
		return nil
	}
	all, err := link.Remembered(c.Conn, "addresses", c.addresses)
	if err != nil {
		return err
	}
	for at, addresses := range all {
		for _, a := range addresses {
			if at != index && slices.Contains(foreign, a) {
				o := p.at(at)
				o.Sources = append(o.Sources, a)
			}
		}
	}
	return nil
}

// located returns the settings with the indices that other interfaces have now: one that was
// away, too, may have come back under another, as IPoIB's do that are made again.
func (c *Conn) located(want Settings) (Settings, error) {
	if len(want.Others) == 0 {
		return want, nil
	}
	list, err := c.List()
	if err != nil {
		return Settings{}, err
	}
	now := map[int]int{}
	want.Others = slices.Clone(want.Others)
	for n, o := range want.Others {
		alike := slices.DeleteFunc(slices.Clone(list), func(i link.Interface) bool { return i.ID != o.ID })
		stayed := slices.ContainsFunc(alike, func(i link.Interface) bool { return i.Index == o.Index })
		if !stayed && len(alike) == 1 {
			now[o.Index] = alike[0].Index
			want.Others[n].Index = alike[0].Index
		}
	}
	want.NodeRoutes = inet.RenumberRoutes(want.NodeRoutes, now)
	return want, nil
}
