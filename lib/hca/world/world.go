// Package world is the node and the job's namespace as the steps of a lease find them. A step is
// written into the journal before it is done, and its undo may run long after it: so steps ask the world where a
// device is, by its identity, whether it will come, and whether the node has lost it.
package world

import (
	"io/fs"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/kernel/udev"
	"gresnet/lib/link"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// World is what steps act on, in three parts: what the caller gives, what the steps of this
// run report to the caller, and what they have open and remember for each other.
type World struct {
	Given
	Outcome
	session
}

// Given is what the caller hands in, so that a test can make another network namespace the
// node's. No step changes it.
type Given struct {
	Root  *netns.NS   // the node's root network namespace
	Sys   fs.FS       // the node's /sys
	Dev   string      // where the node has its device nodes: /dev/infiniband
	CM    string      // RDMA-CM's folder in configfs
	Udev  *udev.Watch // nil: AwaitUdev asks for udev's queue alone
	Dir   state.Lease // the lease's directory
	Table table.Folder
	Locks string // directory of locks
	Guard bpf.Guard
	Job   uint32
	Run   string
	// Managers are the programs of the node that configure interfaces, too.
	Managers Managers
	// Budget is what this run may still wait. Its Context bounds all that may wait.
	poll.Budget
	// Notice tells of what a person may want to know.
	Notice func(format string, a ...any)
	// Warn tells of what a person must know of an HCA, though nothing failed.
	Warn func(id node.ID, problem error)
}

// Ports returns where the node's blocks of ports are.
func (g Given) Ports() ports.Node { return ports.In(g.Guard.Pins) }

// Outcome is what the steps of a rollback find out, and what they leave to do. The caller
// adds what it finds out itself.
type Outcome struct {
	// Away says why an HCA could not be returned.
	Away map[node.ID]string
	// UplinkLeft says that the job's uplink could not be removed: its address stays taken.
	UplinkLeft bool
	// WayOut says what came of the job's uplink.
	WayOut WayOut
	// Gone has the parts of HCAs that the node lost meanwhile.
	Gone map[Piece]bool
	// Rest is what steps left to do, in order. Doing it may leave more.
	Rest []Rest
}

// WayOut says what came of a job's uplink when its step was done.
type WayOut struct {
	Lacking error // why the job has none, if it can do without one
	Srun    bool  // srun works in the job: it reaches slurmctld and slurmd of all nodes, which call it back
}

// Piece is what moves of an HCA at once: its RDMA device with the device nodes, or one of its interfaces. A
// driver may let go of either and keep the other.
type Piece struct {
	HCA       node.ID
	Interface link.ID // the zero ID means the RDMA device
}

// Action says what a step is and what it is about.
type Action interface {
	// Kind names the step in the journal and, with Object, for people.
	Kind() string
	// Object names what the step is about: mlx5_3, ib0; empty for the lease itself.
	Object() string
	// HCA returns the HCA that the step is about; the zero ID for the whole lease.
	HCA() node.ID
}

// Rest is what a step left to do when all interfaces are up, because it needs the carrier of its
// own. All links train at once, so the run waits no longer than for the slowest.
type Rest struct {
	Action
	Do func() error
}

// Leave leaves something to do when all interfaces are up.
func (w *World) Leave(of Action, rest func() error) { w.Rest = append(w.Rest, Rest{of, rest}) }

// LeaveCarrier leaves the wait for the carrier of one of the job's interfaces.
func (w *World) LeaveCarrier(of Action, index int) {
	w.Leave(of, func() error {
		return w.InJob(func(v *scan.View) error {
			_, err := v.Link.AwaitCarrier(index, link.Own{Up: true, Running: true})
			return err
		})
	})
}

// session is what the steps of one run have open and remember.
type session struct {
	host, job *place // entered when they are first looked at
	known     *scan.Known

	arrivals  waiter          // nil until the run waits for a device
	dark      map[port]string // the interfaces that did not get a carrier in time
	names     map[string]int  // how many RDMA devices had each name when RDMA-CM's settings were read
	ambiguous map[string]bool // names that several RDMA devices have, and the log says so
}

// waiter waits for devices that come: udev.Arrivals.
type waiter interface {
	Wait(most time.Duration) error
	Close()
}
