// Package step is the closed set of deeds that a lease is made of. Each kind
// is a file: what it must know, its Do, and its Undo beside it.
//
// A step is noted in the journal before it is done, so its Undo may find it
// not begun, half done or done, and may run again after it was killed half
// way. It therefore asks the world what is left to do, by identity and never
// by name, and finds nothing to do where all is home already.
package step

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"gresnet/lib/bpf"
	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/netns"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/udev"
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

// HomeBegins is the first rank that brings home what the node has of its own. What is
// below was made for the job, and can be removed whatever else fails.
const HomeBegins = 2

// Moved is the first rank of which no step moves an HCA or a part of it.
const Moved = 4

// AllUp is the first rank of which no step brings an interface up.
const AllUp = 5

// AllHome is the first rank that has nothing to do with what the node has of its
// own: once it is reached, all of that is home.
const AllHome = 6

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
func Rank(s Step) int {
	for rank, o := range order {
		if o.kind == s.Kind() {
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

// World is what steps act on. Everything in it is handed in, so that a test
// can make another network namespace the node's.
type World struct {
	Host  *netns.NS   // the node's root network namespace
	Sys   fs.FS       // the node's /sys
	Dev   string      // where the node has its device nodes: /dev/infiniband
	CM    string      // RDMA-CM's folder in configfs
	Udev  *udev.Watch // what Settle goes by; nil: by udev's queue alone
	Dir   string      // the lease's directory
	Table lock.Node
	Locks string // directory of locks
	Guard bpf.Guard
	Job   uint32
	Run   string
	// Managers are the programs of the node that configure interfaces, too.
	Managers Managers
	// Waits is how long this run waits for carriers and names.
	Waits link.Waits
	// Context bounds what may wait.
	Context context.Context
	// Notice tells of what a person may want to know.
	Notice func(format string, a ...any)
	// Warn tells of what a person must know of an HCA, though nothing failed.
	Warn func(id node.ID, problem error)
	// Away is why an HCA could not be brought home, as an unwinding finds out.
	Away map[node.ID]string
	// UplinkLeft says that the job's uplink could not be removed: its address stays taken.
	UplinkLeft bool
	// Gone is what of HCAs the node lost meanwhile.
	Gone map[Part]bool
	// Leased tells whose an interface is that another lease has.
	Leased func(link.ID) (hca node.ID, leased bool)
	// Owed is what interfaces that are home cannot have yet, since another lease has what
	// they share it with.
	Owed map[link.ID]lock.Owed
	// Rest is what steps left, in the order in which it is to be done. What it does may leave more.
	Rest []Rest

	host, job *place // entered when they are first looked at
	known     *scan.Known

	arrivals   waiter            // opened when something is first waited for
	portsUntil time.Time         // zero: none was waited for yet
	goneUntil  time.Time         // the same of HCAs that are lost
	gidsLost   time.Duration     // waited in vain for GIDs of what is home
	lost       map[portOf]string // the interfaces whose carriers were waited for in vain
	ambiguous  map[string]bool   // names of RDMA devices of which it was said that several have them
}

// waiter is what waits for devices that come: socket.Arrivals.
type waiter interface {
	Wait(most time.Duration) error
	Close()
}

func (w *World) netns() string   { return filepath.Join(w.Dir, "netns") }
func (w *World) devices() string { return filepath.Join(w.Dir, "dev") }
