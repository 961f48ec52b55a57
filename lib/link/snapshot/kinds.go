package snapshot

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/tc"
)

// kind describes one kind of setting of an interface. Its row in the table says how to read, apply and
// compare it; one file has the functions. A row leaves out what its kind does not need.
type kind struct {
	// name is what people call it, for errors.
	name string
	// when is the phase in which an interface gets it.
	when phase
	// top is read of the interface that moves only, and not of what stands on it.
	top bool
	// read completes what the kinds before it have read.
	read func(*Conn, *reading) error
	// clear removes what others have given the interface since, if a move leaves nothing of the kind.
	clear func(c *Conn, index int, want Settings) error
	// apply gives what is missing and takes what is too much.
	apply func(*Conn, *giving) error
	// differ names what is not as it was.
	differ func(*Conn, comparing) ([]string, error)
	// value is instead of differ for what is one value.
	value func(Settings) any
}

// phase is when an interface gets a setting. Within a phase it gets them in the order of the table.
type phase int

const (
	down     phase = iota // it can have the setting while it is down
	up                    // only while it is up, and no manager gives it
	network               // its manager gives the setting, if it has one, or it needs what a manager gives
	nodeOnly              // only the node has it
	above                 // it stands on the interface
	shared                // other interfaces of the node have a part in it, and must be back, too
	phases
)

// Stage says where an interface is on its way, and so what it gets.
type Stage int

const (
	// InJob is an interface that came into the job: it gets all that is its own.
	InJob Stage = iota
	// Managed is one that came back and has a manager: it gets what no manager gives it.
	Managed
	// Returned is one that came back: it also gets what stands on it, and what only the node has.
	Returned
	// Settled is one that has been back for a while: it also loses what others have given it since, and
	// gets what it shares with other interfaces of the node, which must be back, too.
	Settled
)

// has tells whether an interface gets the settings of a phase at a stage.
func (s Stage) has(p phase) bool {
	return p <= [...]phase{InJob: network, Managed: up, Returned: above, Settled: shared}[s]
}

// kinds is the table. They are read in its order, because some need what others have read. It is made in
// init because children have all kinds themselves.
var kinds []kind

func init() {
	kinds = []kind{
		{name: "children", when: above, read: readChildren, apply: applyChildren, differ: differChildren},

		// The first look has read these. Apply gives the name and the state itself, attributes come with flags.
		{name: "name", when: down, value: func(s Settings) any { return s.Name }},
		{name: "IPoIB mode", when: down, value: func(s Settings) any { return s.IPoIB.Connected }, apply: applyIPoIB}, // it decides what MTU there may be
		{name: "IPoIB umcast", when: down, value: func(s Settings) any { return s.IPoIB.Umcast }},
		{name: "MTU", when: down, value: func(s Settings) any { return s.MTU },
			apply: func(c *Conn, g *giving) error { return c.SetMTU(g.i.Index, g.i.Own, g.want.MTU) }},
		{name: "MAC", when: down, value: func(s Settings) any { return settableMAC(s.MAC) },
			apply: func(c *Conn, g *giving) error { return c.SetMAC(g.i.Index, g.i.Own, g.want.MAC) }},
		{name: "alternative names", when: down, value: func(s Settings) any { return strings.Join(s.AltNames, " ") },
			apply: func(c *Conn, g *giving) error { return c.ApplyAltNames(g.i.Index, g.i.Own, g.want.Own) }},
		{name: "flags", when: down, value: func(s Settings) any { return fmt.Sprintf("%#x", s.Flags) }},
		{name: "attributes", when: down,
			apply:  func(c *Conn, g *giving) error { return c.ApplyAttributes(g.i.Index, g.i.Own, g.want.Own) },
			differ: differAttributes},
		{name: "driver's settings", when: down, apply: applyDriver, differ: differDriver},
		{name: "state", when: down, value: func(s Settings) any { return link.UpOrDown(s.Up) }},
		{name: "IPv6 token", when: up, value: func(s Settings) any { return hex.EncodeToString(s.Token) },
			apply: applyToken},

		// Apply gives sysctls itself, since some change when the interface is brought up.
		{name: "sysctls", when: down, read: readSysctls, differ: differSysctls},

		{name: "addresses", when: network,
			read: func(c *Conn, r *reading) (err error) {
				r.s.Addresses, r.s.Duplicates, r.temporary, err = inet.ReadAddresses(c.Route, r.i.Index)
				return err
			},
			apply: func(c *Conn, g *giving) error {
				return hint.Join(c.giveAddresses(g.i.Index, g.want), c.awaitDAD(g.i.Index, g.want))
			},
			differ: func(_ *Conn, o comparing) ([]string, error) { return addressDifferences(o.have, o.want), nil }},
		{name: "duplicate addresses", when: nodeOnly, apply: applyDuplicates},
		{name: "neighbours", when: network,
			read: func(c *Conn, r *reading) (err error) {
				r.s.Neighbours, err = inet.ReadNeighbours(c.Route, r.i.Index)
				return err
			},
			clear: func(c *Conn, index int, want Settings) error { // neighbour.c:neigh_ifdown
				return inet.RemoveOtherNeighbours(c.Route, index, want.Name, want.Neighbours)
			},
			apply: func(c *Conn, g *giving) error {
				return inet.ApplyNeighbours(c.Route, g.i.Index, g.want.Name, g.want.Neighbours)
			},
			differ: all("neighbour", func(s Settings) []inet.Neighbour { return s.Neighbours }, netlink.Key, inet.Neighbour.String)},
		{name: "hardware address filters", when: up, read: readFilters, apply: applyFilters,
			differ: lacking("hardware address filter", func(s Settings) []inet.Neighbour { return s.Filters })},
		{name: "policy rules", when: network,
			read:   readRules,
			clear:  func(c *Conn, _ int, want Settings) error { return inet.RemoveOwnRules(c.Route, want.forRules()) },
			apply:  func(c *Conn, g *giving) error { return inet.ApplyRules(c.Route, g.want.forRules(), g.want.Rules) },
			differ: differRules},

		{name: "DCB priorities", when: up, top: true,
			read: func(c *Conn, r *reading) (err error) {
				r.s.Priorities, err = tc.ReadPriorities(c.Route, r.i.Name)
				return err
			},
			apply:  func(c *Conn, g *giving) error { return tc.ApplyPriorities(c.Route, g.i.Name, g.want.Priorities) },
			differ: differPriorities},
		{name: "queueing discipline", when: up,
			read: func(c *Conn, r *reading) (err error) { r.s.Qdisc, err = tc.Read(c.Route, r.i.Index); return err },
			clear: func(c *Conn, index int, want Settings) error { // dev.c:dev_shutdown
				return tc.Clear(c.Route, index, want.Name, want.Qdisc)
			},
			apply: func(c *Conn, g *giving) error {
				return tc.Apply(c.Route, g.i.Index, g.want.Name, g.want.Qdisc)
			},
			differ: differQdisc},

		{name: "next hop objects", when: network, // the routes give those that they use
			read: func(c *Conn, r *reading) (err error) {
				r.s.Nexthops, r.s.NodeNexthops, err = inet.ReadNexthops(c.Route, r.i.Index)
				return err
			},
			differ: all("next hop object", func(s Settings) []inet.Nexthop { return slices.Concat(s.Nexthops, s.NodeNexthops) }, inet.Nexthop.Key, inet.Nexthop.String)},
		{name: "routes", when: network,
			read: func(c *Conn, r *reading) (err error) {
				r.s.Routes, r.s.NodeRoutes, err = c.routes(r.i.Index, r.s.nodeObjects())
				return err
			},
			apply: applyRoutes,
			differ: func(_ *Conn, o comparing) ([]string, error) {
				return netlink.Differences("route", o.want.settledRoutes(o.have), o.want.Routes, inet.Route.Key, inet.Route.String), nil
			}},
		{name: "routes that only the node has", when: shared, read: readNodeRoutes, apply: applyNodeRoutes,
			differ: all("route", func(s Settings) []inet.Route { return s.NodeRoutes }, inet.Route.Key, inet.Route.String)},
		{name: "interfaces that have a part in the routes", when: shared, read: readOthers},

		{name: "queues' files", when: nodeOnly, top: true, apply: applyQueueFiles, differ: differQueueFiles},
	}
}

// all returns a differ for messages: the interface is to have those that it had, and no others.
func all[M ~[]byte](what string, of func(Settings) []M, key, name func(M) string) func(*Conn, comparing) ([]string, error) {
	return func(_ *Conn, o comparing) ([]string, error) {
		return netlink.Differences(what, of(o.have), of(o.want), key, name), nil
	}
}

// lacking returns a differ for messages: the interface may have more than it had.
func lacking[M interface {
	~[]byte
	String() string
}](what string, of func(Settings) []M) func(*Conn, comparing) ([]string, error) {
	return func(_ *Conn, o comparing) (diff []string, err error) {
		for _, m := range netlink.Missing(of(o.want), of(o.have), netlink.Key) {
			diff = append(diff, fmt.Sprintf("%s %s is missing", what, m))
		}
		return diff, nil
	}
}

// reading is an interface whose settings are read.
type reading struct {
	i         link.Described
	s         *Settings
	temporary []inet.Address // its temporary addresses, which are no settings
	// noBorrowers: others had no routes from its addresses. The dump of all routes that finds such is left out.
	noBorrowers bool
}

// giving is an interface that gets settings.
type giving struct {
	i     link.Described // as it was before it was brought up; only its index from nodeOnly on
	want  Settings
	stage Stage
}

// comparing is an interface whose settings are compared.
type comparing struct {
	index      int
	have, want Settings
}

// give gives an interface the settings of a phase. What fails does not keep it from the rest.
func (c *Conn) give(p phase, g *giving) (err error) {
	if !g.stage.has(p) {
		return nil
	}
	for _, k := range kinds {
		if k.when == p && k.apply != nil {
			err = hint.Join(err, k.apply(c, g))
		}
	}
	return err
}

// clear removes what others have given an interface since it is back. It must precede what gives that
// back: a neighbour that is another now is not made the old one by a request to replace it
// (neighbour.c:neigh_add).
func (c *Conn) clear(index int, want Settings) (err error) {
	for _, k := range kinds {
		if k.clear != nil {
			err = hint.Join(err, k.clear(c, index, want))
		}
	}
	return err
}

// read reads all kinds of settings of an interface that was just looked at.
func (c *Conn) read(r *reading, top bool) error {
	for _, k := range kinds {
		if k.read == nil || k.top && !top {
			continue
		}
		if err := k.read(c, r); err != nil {
			return fmt.Errorf("read the %s of %s: %w", k.name, r.s.Name, err)
		}
	}
	return nil
}

// differences names what differs of all kinds, in the order in which an interface gets them.
func (c *Conn) differences(o comparing) (all []string, err error) {
	for p := range phases {
		for _, k := range kinds {
			if k.when != p {
				continue
			}
			if k.value != nil {
				all = append(all, differ(k.name, k.value(o.have), k.value(o.want))...)
			}
			if k.differ == nil {
				continue
			}
			diff, err := k.differ(c, o)
			if err != nil {
				return nil, err
			}
			all = append(all, diff...)
		}
	}
	return all, nil
}
