// Package step is the closed set of steps that a lease is made of. Each kind
// is a file: what it must know, its Do, and its Undo beside it. Those of the
// job's own network are in package network. Hook runs the site's programs.
// Plan (plan.go) has the order in which a prolog does them, and order (below)
// the one in which a rollback undoes them.
//
// A step has an entry in the journal before it is done, so its Undo may find it
// not begun, half done or done, and may run again after it was killed half
// way. It therefore asks the world what is left to do, by identity and never
// by name, and finds nothing to do where all is back already.
package step

import (
	"encoding/json"
	"fmt"

	"gresnet/lib/hca/world"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
)

// Step is one action with all that its undo must know.
type Step interface {
	world.Action
	Do(*world.World) error
	Undo(*world.World) error
}

// Verifier is a step whose undo another program on the node may interfere with. Verify looks at it
// again when udev is idle.
type Verifier interface {
	Step
	Verify(*world.World) error
}

// order says which kinds of steps a rollback undoes first: all interfaces are back before their settings. Moves,
// rdma and link, are undone as they were done (sortForUndo in lib/lease). Only this table has kinds and their ranks.
var order = []struct {
	kind  string
	blank func() Step
}{
	{"hook", func() Step { return new(Hook) }},
	{"uplink", func() Step { return new(network.Uplink) }},
	{"overlay", func() Step { return new(network.Overlay) }},
	{"child", func() Step { return new(Child) }},
	{"rdma", func() Step { return new(RDMA) }},
	{"link", func() Step { return new(Link) }},
	{"settings", func() Step { return new(Settings) }},
	{"vf", func() Step { return new(VF) }},
	{"access", func() Step { return new(Access) }},
	{"devices", func() Step { return new(Devices) }},
	{"namespace", func() Step { return new(Namespace) }},
	{"claim", func() Step { return new(Claim) }},
}

// Where the parts of a rollback begin, in ranks.
var (
	// ReturnBegins is the first rank that returns parts of the node. Lower ranks were made for
	// the job, and the rollback removes them whatever else fails.
	ReturnBegins = rankOf("rdma")
	// Moved is the first rank after those that move an HCA or a part of it.
	Moved = rankOf("settings")
	// AllUp is the first rank after those that bring interfaces up.
	AllUp = rankOf("access")
	// AllReturned is the first rank after those that return parts of the node.
	AllReturned = rankOf("devices")
)

// more is a kind that is not in order. It is undone together with a kind that is.
type more struct {
	with  string
	blank func() Step
}

var added = map[string]more{}

// Add adds a kind, and returns a function that removes it. A test does so.
func Add(kind, with string, blank func() Step) (remove func()) {
	added[kind] = more{with, blank}
	return func() { delete(added, kind) }
}

// Rank returns a step's place in a rollback, which undoes low ranks first.
func Rank(s Step) int { return rankOf(s.Kind()) }

func rankOf(kind string) int {
	for rank, o := range order {
		if o.kind == kind || o.kind == added[kind].with {
			return rank
		}
	}
	return len(order)
}

// JournaledSettings returns the settings that a journal has, as far as they read.
func JournaledSettings(undoLog *journal.Journal) (all []*Settings) {
	for _, entry := range undoLog.Entries {
		s, err := Decode(entry.Kind, entry.Data)
		if had, is := s.(*Settings); is && err == nil {
			all = append(all, had)
		}
	}
	return all
}

// Decode reads a step from the journal.
func Decode(kind string, data json.RawMessage) (Step, error) {
	blank := added[kind].blank
	for _, o := range order {
		if o.kind == kind {
			blank = o.blank
		}
	}
	if blank == nil {
		return nil, fmt.Errorf("read step %s: unknown kind of step", kind)
	}
	s := blank()
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read step %s: %w", kind, err)
	}
	return s, nil
}
