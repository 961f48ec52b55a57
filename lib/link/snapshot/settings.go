package snapshot

import (
	"slices"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/sysctl"
	"gresnet/lib/link/tc"
)

// Settings is what an administrator gave an interface and a move takes from
// it. Settings are read before the first change and applied by whoever brings
// the interface somewhere: the prolog into the job, the epilog back.
type Settings struct {
	Index int `json:"-"` // the entry of its move has it
	link.Own
	Driver     *Driver          `json:"driver,omitempty"` // of an interface that is made again
	Token      []byte           `json:"token,omitempty"`  // of IPv6 autoconfiguration
	Sysctls    sysctl.Values    `json:"sysctls,omitempty"`
	Addresses  []inet.Address   `json:"addresses,omitempty"`  // in the kernel's order
	Duplicates []inet.Address   `json:"duplicates,omitempty"` // addresses that another has, too
	Routes     []inet.Route     `json:"routes,omitempty"`     // of every table, the kernel's own included
	Nexthops   []inet.Nexthop   `json:"nexthops,omitempty"`   // objects that routes may use
	Neighbours []inet.Neighbour `json:"neighbours,omitempty"` // permanent ones and proxies
	Filters    []inet.Neighbour `json:"filters,omitempty"`    // other hardware addresses that it takes packets for
	Qdisc      tc.Qdisc         `json:"qdisc,omitempty"`      // at the root; empty is the kernel's choice
	Priorities []tc.Priority    `json:"priorities,omitempty"` // of applications, by data center bridging
	Rules      []inet.Rule      `json:"rules,omitempty"`      // that name it or its addresses; they stay on the node, too

	// Taken is the time since boot at which the settings were read.
	Taken time.Duration `json:"taken"`

	// Manager is the program that had configured the interface, if one had.
	Manager string `json:"manager,omitempty"`

	// What other interfaces of the node have a part in: only Settled gives it.
	NodeNexthops []inet.Nexthop `json:"node_nexthops,omitempty"` // groups with others' members
	NodeRoutes   []inet.Route   `json:"node_routes,omitempty"`   // over others, too, or from an address of this one
	Others       []Other        `json:"others,omitempty"`        // these interfaces, and those whose addresses Routes are from
	Children     []Child        `json:"children,omitempty"`      // which stay on the node

	ownRules []inet.Rule // that a killed run has left of those that it needed itself
}

// Settings reads an interface's settings. What could not be put back is
// refused here, before anything was changed.
func (c *Conn) Settings(index int) (Settings, error) {
	i, err := c.Look(index)
	if err != nil {
		return Settings{}, err
	}
	s, err := c.complete(i, false, true)
	if err != nil {
		return Settings{}, err
	}
	s.Index = index
	return s, c.refuse(i, s)
}

// snapshot reads an interface's settings, whether they could be put back or not.
func (c *Conn) snapshot(index int, noBorrowers bool) (Settings, error) {
	i, err := c.Look(index)
	if err != nil {
		return Settings{}, err
	}
	return c.complete(i, noBorrowers, false)
}

// complete reads the rest of the settings of an interface that was just looked at.
func (c *Conn) complete(i link.Described, noBorrowers, top bool) (Settings, error) {
	s := Settings{Own: i.Own, Token: i.Token, Taken: proc.SinceBoot()}
	r := reading{i: i, s: &s, noBorrowers: noBorrowers}
	if err := c.read(&r, top); err != nil {
		// udev may have renamed it meanwhile: then others' settings were read by its name, or none.
		if now, lookErr := c.Look(i.Index); lookErr == nil && now.Name != i.Name {
			return c.complete(now, noBorrowers, top)
		}
		return Settings{}, err
	}
	s.Routes = slices.DeleteFunc(s.Routes, func(m inet.Route) bool {
		return comesWithAny(m, r.temporary) && !comesWithAny(m, s.Addresses) || s.leftOver(m)
	})
	return s, nil
}

// Apply gives an interface that was moved the settings that it is to have at a stage, and only what
// differs: on one that has them it changes nothing. What fails does not keep it from the rest.
//
// It does not wait for the carrier: an interface that has none yet, though it had one, is up then, and
// finish waits for it and gives the rest. Whoever applies the settings of all interfaces before it
// finishes the first waits for the slowest link only. finish is nil if nothing is left.
func (c *Conn) Apply(index int, want Settings, stage Stage) (finish func() error, err error) {
	defer c.AskAgain()()
	if stage != InJob {
		want = want.lessDaemons()
	}
	if stage == Settled {
		err = c.clear(index, want)
	}
	raised, raiseErr := c.raise(index, want, stage)
	return c.andOnNode(raised, index, want, stage, hint.Join(err, raiseErr))
}

// ApplyTo does what Apply does at a stage before Settled, to an interface that was just looked at.
func (c *Conn) ApplyTo(i link.Described, want Settings, stage Stage) (finish func() error, err error) {
	defer c.AskAgain()()
	if stage != InJob {
		want = want.lessDaemons()
	}
	raised, err := c.raiseLooked(i, want, stage)
	return c.andOnNode(raised, i.Index, want, stage, err)
}

// andOnNode gives an interface what it gets after raise: at once, or when raised has given what raise left.
func (c *Conn) andOnNode(raised func() error, index int, want Settings, stage Stage, err error) (finish func() error, _ error) {
	onNode := func() error {
		defer c.AskAgain()()
		g := giving{want: want, stage: stage}
		g.i.Index = index
		return hint.Join(c.give(nodeOnly, &g), c.give(above, &g), c.give(shared, &g))
	}
	if raised == nil {
		return nil, hint.Join(err, onNode())
	}
	return func() error { return hint.Join(raised(), onNode()) }, err
}

// Finished does what Apply has left, too.
func Finished(finish func() error, err error) error {
	if finish != nil {
		err = hint.Join(err, finish())
	}
	return err
}

// raise gives an interface what is its own: its name, what it can have while it is down, sysctls, its state,
// and what it can have only while it is up and has its carrier.
func (c *Conn) raise(index int, want Settings, stage Stage) (finish func() error, err error) {
	i, err := c.Look(index)
	if err != nil {
		return nil, err
	}
	return c.raiseLooked(i, want, stage)
}

func (c *Conn) raiseLooked(i link.Described, want Settings, stage Stage) (finish func() error, err error) {
	index, changes := i.Index, c.Changes()
	// Under another name it is of use to the node still.
	renamed := c.Rename(&i.Interface, want.Name)
	want.Name = i.Name
	err = hint.Join(renamed, c.give(down, &giving{i, want, stage}))
	if c.Changes() != changes {
		var lookErr error
		if i, lookErr = c.Look(index); lookErr != nil {
			return nil, hint.Join(err, lookErr)
		}
	}
	have, sysctlErr := sysctl.Apply(forSysctls(i), want.Sysctls.Before())
	err = hint.Join(err, sysctlErr)
	now, stateErr := c.SetState(i.Interface, want.Own)
	err = hint.Join(err, stateErr)
	rest := func(now link.Interface) error {
		g := giving{i, want.aged(), stage}
		err := hint.Join(c.give(up, &g), c.give(network, &g))
		if sysctlErr != nil {
			return err
		}
		return hint.Join(err, sysctl.ApplyUp(now.Name, want.Sysctls, have, func() (sysctl.Interface, error) {
			i, err := c.Look(index)
			return forSysctls(i), err
		}))
	}
	if !c.LeaveCarrier(now, want.Own) {
		return nil, hint.Join(err, rest(now))
	}
	return func() error {
		defer c.AskAgain()()
		now, err := c.AwaitCarrier(index, want.Own)
		if err != nil {
			return err
		}
		return rest(now)
	}, err
}
