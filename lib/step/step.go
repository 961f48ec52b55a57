// Package step is the closed set of deeds that a lease is made of. Each kind
// is a file: what it must know, its Do, and its Undo beside it.
//
// A step is noted in the journal before it is done, so its Undo may find it
// not begun, half done or done, and may run again after it was killed half
// way. It therefore asks the world what is left to do, by identity and never
// by name, and finds nothing to do where all is home already.
package step

import (
	"encoding/json"
	"fmt"

	"gresnet/lib/link"
	"gresnet/lib/node"
)

// Step is one deed with what its undo must know.
type Step interface {
	// Kind names the step in the journal and, with Object, for people.
	Kind() string
	// Object is what the step is about: mlx5_3, ib0; empty if the lease itself.
	Object() string
	// HCA is whose step this is; the zero ID if it is the whole lease's.
	HCA() node.ID
	Do(*World) error
	Undo(*World) error
}

// Verifier is a step whose undo others on the node may interfere with: it is
// looked at again when they have had their say.
type Verifier interface {
	Step
	Verify(*World) error
}

// Starter is a step that the kernel can be at while others are done.
type Starter interface {
	Step
	// Start begins what Do does, and StartUndo what Undo does; what they return waits
	// for the end, and is to be called.
	Start(*World) (wait func() error, err error)
	StartUndo(*World) (wait func() error, err error)
}

// Rest is what a step left for when all interfaces are up: what needs the carrier of its own.
// All links train at once, and so the slowest alone is waited for.
type Rest struct {
	Step Step
	Do   func() error
}

// leave leaves something for when all interfaces are up.
func (w *World) leave(s Step, rest func() error) { w.Rest = append(w.Rest, Rest{s, rest}) }

// order is what is undone first: an RDMA device must be home before its interface,
// which that move may make anew, and all interfaces before their settings. Kinds and
// their places stand here and nowhere else.
var order = []struct {
	kind  string
	blank func() Step
}{
	{"uplink", func() Step { return new(Uplink) }},
	{"overlay", func() Step { return new(Overlay) }},
	{"rdma", func() Step { return new(RDMA) }},
	{"link", func() Step { return new(Link) }},
	{"settings", func() Step { return new(Settings) }},
	{"access", func() Step { return new(Access) }},
	{"devices", func() Step { return new(Devices) }},
	{"namespace", func() Step { return new(Namespace) }},
	{"claim", func() Step { return new(Claim) }},
}

// Where the parts of an unwinding begin, in ranks.
var (
	// HomeBegins is the first rank that brings home what the node has of its own. What is
	// below was made for the job, and can be removed whatever else fails.
	HomeBegins = rankOf("rdma")
	// Moved is the first rank of which no step moves an HCA or a part of it.
	Moved = rankOf("settings")
	// AllUp is the first rank of which no step brings an interface up.
	AllUp = rankOf("access")
	// AllHome is the first rank that has nothing to do with what the node has of its
	// own: once it is reached, all of that is home.
	AllHome = rankOf("devices")
)

// Part is what of an HCA a step is about: its RDMA device, with the device nodes, or one of its
// interfaces. A driver may let go of either and keep the other.
type Part struct {
	HCA       node.ID
	Interface link.ID // the zero ID means the RDMA device
}

// PartOf is the part that a step is about.
func PartOf(s Step) Part {
	switch s := s.(type) {
	case *Link:
		return Part{s.Of, s.Interface}
	case *Settings:
		return Part{s.Of, s.Interface}
	}
	return Part{HCA: s.HCA()}
}

// Rank is a step's place in an unwinding: low ranks are undone first.
func Rank(s Step) int { return rankOf(s.Kind()) }

func rankOf(kind string) int {
	for rank, o := range order {
		if o.kind == kind {
			return rank
		}
	}
	return len(order)
}

// Decode reads a step as the journal has it.
func Decode(kind string, data json.RawMessage) (Step, error) {
	for _, o := range order {
		if o.kind == kind {
			s := o.blank()
			if err := json.Unmarshal(data, s); err != nil {
				return nil, fmt.Errorf("read step %s: %w", kind, err)
			}
			return s, nil
		}
	}
	return nil, fmt.Errorf("read step %s: unknown kind of step", kind)
}
