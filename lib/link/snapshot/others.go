package snapshot

import (
	"errors"
	"net/netip"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/link/address"
	"gresnet/lib/link/route"
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
	return len(s.HomeRoutes)+len(s.HomeNexthops) > 0 ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.Shares() })
}

// readOthers reads which interfaces have a part in the routes that were read.
func readOthers(c *Conn, r *reading) (err error) {
	var p parties
	for _, m := range r.s.HomeRoutes {
		m.EachIndex(func(b []byte) { p.at(int(native.Uint32(b))) })
	}
	if err := c.owners(&p, *r.s); err != nil {
		return err
	}
	if err := c.sources(&p, r.i.Index, *r.s); err != nil {
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
	for _, id := range route.OthersObjects(s.Nexthops, s.HomeNexthops, s.HomeRoutes) {
		indices, err := route.Owners(c.Route, id)
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

// Foreign returns the addresses that routes are from, and that neither the interface has nor any of the others.
func (s Settings) Foreign() (list []netip.Addr) {
	for _, m := range s.Routes {
		from := route.Source(m)
		known := !from.IsValid() || slices.Contains(list, from) ||
			slices.ContainsFunc(s.Addresses, func(a address.Address) bool { return a.Addr().Addr() == from }) ||
			slices.ContainsFunc(s.Others, func(o Other) bool { return slices.Contains(o.Sources, from) })
		if !known {
			list = append(list, from)
		}
	}
	return list
}

// sources adds whose the foreign addresses are.
func (c *Conn) sources(p *parties, index int, s Settings) error {
	foreign := s.Foreign()
	if len(foreign) == 0 {
		return nil
	}
	answers, err := address.Dump(c.Route, 0)
	if err != nil {
		return err
	}
	for _, a := range answers {
		m, err := address.Clean(a)
		if err != nil {
			return err
		}
		if at := int(native.Uint32(a[4:])); at != index && slices.Contains(foreign, m.Addr().Addr()) {
			o := p.at(at)
			o.Sources = append(o.Sources, m.Addr().Addr())
		}
	}
	return nil
}

// located returns the settings with the indices that other interfaces have now: one that was
// away, too, may have come home under another, as IPoIB's do that are made again.
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
	want.HomeRoutes, want.owed.HomeRoutes = route.Renumber(want.HomeRoutes, now), route.Renumber(want.owed.HomeRoutes, now)
	return want, nil
}
