package step

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"gresnet/lib/bpf"
	"gresnet/lib/link"
	"gresnet/lib/netns"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/table"
	"gresnet/lib/udev"
)

// World is what steps act on, in three parts: what the caller gives, what the steps of this
// run have open and remember for each other, and what they report to the caller.
type World struct {
	Given
	Outcome
	session
}

// Given is what the caller hands in, so that a test can make another network namespace the
// node's. No step changes it.
type Given struct {
	Host  *netns.NS   // the node's root network namespace
	Sys   fs.FS       // the node's /sys
	Dev   string      // where the node has its device nodes: /dev/infiniband
	CM    string      // RDMA-CM's folder in configfs
	Udev  *udev.Watch // what WaitUdev goes by; nil: by udev's queue alone
	Dir   string      // the lease's directory
	Table table.File
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
	// Leased returns the HCA of an interface that another lease has.
	Leased func(link.ID) (hca node.ID, leased bool)
}

// Outcome is what the steps of an unwinding find out, and what they leave to do. The caller
// also adds to it, since it finds some of it before any step does.
type Outcome struct {
	// Away is why an HCA could not be brought home.
	Away map[node.ID]string
	// UplinkLeft says that the job's uplink could not be removed: its address stays taken.
	UplinkLeft bool
	// Gone is what of HCAs the node lost meanwhile.
	Gone map[Part]bool
	// Deferred is what interfaces that are home cannot have yet, since another lease has what
	// they share it with.
	Deferred map[link.ID]table.Owed
	// Rest is what steps left, in the order in which it is to be done. What it does may leave more.
	Rest []Rest
}

// session is what the steps of one run have open, and what they have waited for already.
type session struct {
	host, job *place // entered when they are first looked at
	known     *scan.Known

	arrivals   waiter            // opened when something is first waited for
	portsUntil time.Time         // zero: none was waited for yet
	goneUntil  time.Time         // the same of HCAs that are lost
	gidsLost   time.Duration     // waited in vain for GIDs of what is home
	lost       map[portOf]string // the interfaces whose carriers were waited for in vain
	ambiguous  map[string]bool   // names of RDMA devices of which it was said that several have them
}

// waiter is what waits for devices that come: udev.Arrivals.
type waiter interface {
	Wait(most time.Duration) error
	Close()
}

func (w *World) netns() string   { return filepath.Join(w.Dir, "netns") }
func (w *World) devices() string { return filepath.Join(w.Dir, "dev") }
