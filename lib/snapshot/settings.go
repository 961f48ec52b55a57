package snapshot

import (
	"fmt"
	"slices"
	"time"

	"gresnet/lib/address"
	"gresnet/lib/clock"
	"gresnet/lib/dcb"
	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/neighbour"
	"gresnet/lib/route"
	"gresnet/lib/rule"
	"gresnet/lib/sysctl"
	"gresnet/lib/tc"
)

// Settings is what an administrator gave an interface and a move takes from
// it. Settings are read before the first change and applied by whoever brings
// the interface somewhere: the prolog into the job, the epilog back.
type Settings struct {
	Index int `json:"-"` // the note of its move has it
	link.Own
	Driver     *Driver               `json:"driver,omitempty"` // of an interface that is made anew
	Token      []byte                `json:"token,omitempty"`  // of IPv6 autoconfiguration
	Sysctls    sysctl.Values         `json:"sysctls,omitempty"`
	Addresses  []address.Address     `json:"addresses,omitempty"`  // in the kernel's order
	Duplicates []address.Address     `json:"duplicates,omitempty"` // addresses that another has, too
	Routes     []route.Route         `json:"routes,omitempty"`     // of every table, the kernel's own included
	Nexthops   []route.Nexthop       `json:"nexthops,omitempty"`   // objects that routes may use
	Neighbours []neighbour.Neighbour `json:"neighbours,omitempty"` // permanent ones and proxies
	Filters    []neighbour.Neighbour `json:"filters,omitempty"`    // other hardware addresses that it takes packets for
	tc.Qdiscs
	Priorities []dcb.Priority `json:"priorities,omitempty"` // of applications, by data center bridging
	Rules      []rule.Rule    `json:"rules,omitempty"`      // that name it or its addresses; they stay on the node, too

	// Taken is the time since boot at which the settings were read.
	Taken time.Duration `json:"taken"`

	// Manager is the program that had configured the interface, if one had.
	Manager string `json:"manager,omitempty"`

	// What other interfaces of the node have a part in: only Restore gives it.
	HomeNexthops []route.Nexthop `json:"home_nexthops,omitempty"` // groups with others' members
	HomeRoutes   []route.Route   `json:"home_routes,omitempty"`   // over others, too, or from an address of this one
	Others       []Other         `json:"others,omitempty"`        // these interfaces, and those whose addresses Routes are from
	Children     []Child         `json:"children,omitempty"`      // which stay on the node
	Mirrors      []tc.Mirror     `json:"mirrors,omitempty"`       // actions of others' traffic filters that send packets through it

	// Steering has files of the queues, below /sys/class/net/NAME, that Qdisc resets. Only Restore writes them.
	Steering map[string]string `json:"steering,omitempty"`
}

// Settings reads an interface's settings. What could not be put back is
// refused here, before anything was changed.
func (c *Conn) Settings(index int) (Settings, error) {
	i, err := c.Look(index)
	if err != nil {
		return Settings{}, err
	}
	s, err := c.complete(i, nil)
	if err != nil {
		return Settings{}, err
	}
	s.Index = index
	if s.Mirrors, err = tc.ReadMirrors(c.Route, index); err != nil {
		return Settings{}, fmt.Errorf("read the actions that send packets through %s: %w", s.Name, err)
	}
	if err := c.refuse(i, s); err != nil {
		return Settings{}, err
	}
	if s.Priorities, err = dcb.Read(c.Route, i.Name); err != nil {
		return Settings{}, fmt.Errorf("read the DCB priorities of %s: %w", s.Name, err)
	}
	if s.Qdisc.Kind() == "mqprio" {
		s.Steering, err = c.queues(i.Interface).Steering()
	}
	return s, err
}

// snapshot reads an interface's settings, whether they could be put back or not. What
// sysctls are expected to be, which may be nothing, spares files.
func (c *Conn) snapshot(index int, expected sysctl.Values) (Settings, error) {
	i, err := c.Look(index)
	if err != nil {
		return Settings{}, err
	}
	return c.complete(i, expected)
}

// complete reads the rest of the settings of an interface that was just looked at.
func (c *Conn) complete(i link.Described, expected sysctl.Values) (s Settings, err error) {
	if !c.Remembers() {
		c.Sysctls.Forget() // others may have changed them
	}
	index := i.Index
	s.Own, s.Token = i.Own, i.Token
	s.Taken = clock.SinceBoot()
	if s.Children, err = c.readChildren(index); err != nil {
		return Settings{}, fmt.Errorf("read the children of %s: %w", s.Name, err)
	}
	// Now it is known how many interfaces there are.
	if s.Sysctls, err = c.Sysctls.Read(forSysctls(i), expected); err != nil {
		// udev may have renamed it meanwhile: then it has others' files, or none.
		if now, lookErr := c.Look(index); lookErr == nil && now.Name != i.Name {
			return c.complete(now, expected)
		}
		return Settings{}, err
	}
	var temporary []address.Address
	if s.Addresses, s.Duplicates, temporary, err = address.Read(c.Route, index); err != nil {
		return Settings{}, fmt.Errorf("read the addresses of %s: %w", s.Name, err)
	}
	if s.Neighbours, err = neighbour.Read(c.Route, index); err != nil {
		return Settings{}, fmt.Errorf("read the neighbours of %s: %w", s.Name, err)
	}
	if s.Filters, err = c.ownFilters(index, s.MAC); err != nil {
		return Settings{}, fmt.Errorf("read the hardware address filters of %s: %w", s.Name, err)
	}
	if s.Rules, err = rule.Read(c.Route, s.forRules()); err != nil {
		return Settings{}, fmt.Errorf("read the policy rules of %s: %w", s.Name, err)
	}
	if s.Qdiscs, err = tc.ReadQdiscs(c.Route, index, i.Up); err != nil {
		return Settings{}, fmt.Errorf("read the queueing disciplines of %s: %w", s.Name, err)
	}
	if err := c.readRoutes(index, &s); err != nil {
		return Settings{}, err
	}
	s.Routes = slices.DeleteFunc(s.Routes, func(m route.Route) bool {
		return comesWithAny(m, temporary) && !comesWithAny(m, s.Addresses) || s.leftOver(m)
	})
	return s, nil
}

// readRoutes reads the routes and what they use.
func (c *Conn) readRoutes(index int, s *Settings) (err error) {
	if s.Nexthops, s.HomeNexthops, err = route.ReadNexthops(c.Route, index); err != nil {
		return fmt.Errorf("read the next hop objects of %s: %w", s.Name, err)
	}
	if s.Routes, s.HomeRoutes, err = c.routes(index, s.homeObjects()); err != nil {
		return fmt.Errorf("read the routes of %s: %w", s.Name, err)
	}
	borrowers, err := c.borrowers(index, s.Addresses)
	if err != nil {
		return fmt.Errorf("read the routes from the addresses of %s: %w", s.Name, err)
	}
	s.HomeRoutes = merge(s.HomeRoutes, borrowers)
	if s.Others, err = c.others(index, *s); err != nil {
		return fmt.Errorf("read what has a part in the routes of %s: %w", s.Name, err)
	}
	return nil
}

// forRules returns what policy rules name the interface by.
func (s Settings) forRules() rule.Interface {
	i := rule.Interface{Name: s.Name}
	for _, m := range s.Addresses {
		i.Addresses = append(i.Addresses, m.Addr().Addr())
	}
	return i
}

// Apply gives an interface that was moved its settings, and only what differs: on one that
// has them it changes nothing. What fails does not keep it from the rest.
func (c *Conn) Apply(index int, want Settings) error { return finished(c.Raise(index, want)) }

// Raise is Apply without the wait for the carrier: an interface that has none yet, though it
// had one, is up then, and finish waits for it and gives the rest. Whoever raises all
// interfaces before it finishes the first waits for the slowest link only. finish is nil if
// nothing is left.
func (c *Conn) Raise(index int, want Settings) (finish func() error, err error) {
	return c.raise(index, want, c.applyNetwork)
}

func (c *Conn) raise(index int, want Settings, network func(link.Described, Settings) error) (finish func() error, err error) {
	defer c.Anew()()
	i, err := c.Look(index)
	if err != nil {
		return nil, err
	}
	changes := c.Changes()
	// Under another name it is of use to the node still.
	renamed := c.Rename(&i.Interface, want.Name)
	want.Name = i.Name
	err = hint.Join(renamed, c.applyLink(i, want))
	if c.Changes() != changes {
		var lookErr error
		if i, lookErr = c.Look(index); lookErr != nil {
			return nil, hint.Join(err, lookErr)
		}
	}
	have, sysctlErr := c.Sysctls.Apply(forSysctls(i), want.Sysctls.Before())
	err = hint.Join(err, sysctlErr)
	now, stateErr := c.SetState(i.Interface, want.Own)
	err = hint.Join(err, stateErr)
	rest := func(now link.Interface) error {
		err := network(i, want.aged())
		if sysctlErr != nil {
			return err
		}
		return hint.Join(err, c.Sysctls.ApplyUp(index, now.Name, want.Sysctls, have, func() (sysctl.Interface, error) {
			i, err := c.Look(index)
			return forSysctls(i), err
		}))
	}
	if !c.LeaveCarrier(now, want.Own) {
		return nil, hint.Join(err, rest(now))
	}
	return func() error {
		defer c.Anew()()
		now, err := c.AwaitCarrier(index, want.Own)
		if err != nil {
			return err
		}
		return rest(now)
	}, err
}

// finished does what is left, too.
func finished(finish func() error, err error) error {
	if finish != nil {
		err = hint.Join(err, finish())
	}
	return err
}

// RestoreAlone is Apply at home: it also gives back what stands on the interface, and
// what no job has.
func (c *Conn) RestoreAlone(index int, want Settings) error {
	return finished(c.RaiseAlone(index, want))
}

// RaiseAlone is to RestoreAlone what Raise is to Apply.
func (c *Conn) RaiseAlone(index int, want Settings) (finish func() error, err error) {
	defer c.Anew()()
	rest := func() error {
		defer c.Anew()()
		err := hint.Join(c.applyDuplicates(index, want), c.applyQueueFiles(index, want))
		err = hint.Join(err, tc.ApplyMirrors(c.Route, index, want.Name, want.Mirrors))
		return hint.Join(err, c.restoreChildren(index, want.Children, c.RestoreAlone))
	}
	raised, err := c.Raise(index, want)
	if raised == nil {
		return nil, hint.Join(err, rest())
	}
	return func() error { return hint.Join(raised(), rest()) }, err
}

// Restore is RestoreAlone for an interface that has been home for a while: it also removes what
// others have given the interface since. And it gives back what the interface shares with other
// interfaces of the node, which must be home, too.
func (c *Conn) Restore(index int, want Settings) error {
	defer c.Anew()()
	err := hint.Join(c.takeSince(index, want), c.Apply(index, want))
	err = hint.Join(err, c.applyDuplicates(index, want))
	err = hint.Join(err, c.applyQueueFiles(index, want))
	err = hint.Join(err, tc.ApplyMirrors(c.Route, index, want.Name, want.Mirrors))
	err = hint.Join(err, c.restoreChildren(index, want.Children, c.Restore))
	want, readErr := c.located(want.aged())
	if readErr != nil {
		return hint.Join(err, readErr)
	}
	return hint.Join(err, rule.Despite(c.Route, want.forRules(), want.Rules, func() error { return c.applyHomeRoutes(index, want) }))
}

// takeSince takes from the interface what a move leaves nothing of (dev.c:dev_shutdown,
// neighbour.c:neigh_ifdown). It must precede what gives it: a neighbour that is another
// now is not made the old one by a request to replace it (neighbour.c:neigh_add).
func (c *Conn) takeSince(index int, want Settings) error {
	return hint.Join(neighbour.RemoveOthers(c.Route, index, want.Name, want.Neighbours), tc.RemoveQdisc(c.Route, index, want.Name, want.Qdiscs))
}

// applyLink gives the interface what it can have while it is down.
func (c *Conn) applyLink(i link.Described, want Settings) error {
	have, changes := i.Own, c.Changes()
	err := c.SetIPoIB(i.Interface, want.Own)
	if c.Changes() != changes {
		now, lookErr := c.Look(i.Index)
		if lookErr != nil {
			return hint.Join(err, lookErr)
		}
		have = now.Own
	}
	err = hint.Join(err, c.SetMTU(i.Index, have, want.MTU))
	err = hint.Join(err, c.SetMAC(i.Index, have, want.MAC))
	err = hint.Join(err, c.ApplyAltNames(i.Index, have, want.Own))
	err = hint.Join(err, c.ApplyAttributes(i.Index, have, want.Own))
	return hint.Join(err, c.applyDriver(i.Index, want))
}

// applyNetwork gives the interface, up by now if it is to be, its addresses and what needs them.
func (c *Conn) applyNetwork(i link.Described, want Settings) error {
	index := i.Index
	err := c.applyUnmanaged(i, want)
	err = hint.Join(err, c.applyAddresses(index, want))
	err = hint.Join(err, c.awaitDAD(index, want))
	err = hint.Join(err, neighbour.Apply(c.Route, index, want.Name, want.Neighbours))
	err = hint.Join(err, rule.Apply(c.Route, want.forRules(), want.Rules))
	return hint.Join(err, rule.Despite(c.Route, want.forRules(), want.Rules, func() error { return c.applyRoutes(index, want) }))
}

// applyUnmanaged gives the interface, up by now if it is to be, what no manager gives it.
func (c *Conn) applyUnmanaged(i link.Described, want Settings) error {
	err := c.ApplyToken(i, want.Own, want.Token)
	err = hint.Join(err, c.applyFilters(i.Index, want))
	err = hint.Join(err, dcb.Apply(c.Route, i.Name, want.Priorities))
	return hint.Join(err, tc.ApplyQdiscs(c.Route, i.Index, want.Name, want.Up, want.Qdiscs))
}
