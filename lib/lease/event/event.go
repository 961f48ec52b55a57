// Package event names what a run tells of: each event has a kind, and fields to search for.
package event

import (
	"fmt"
	"strings"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/gres"
)

// Kind is what kind of event one is: what a log is searched for, and what is counted.
type Kind string

// The kinds of events.
const (
	StepDone       Kind = "step-done"        // a step was done, undone, or looked at again
	StepFailed     Kind = "step-failed"      // it was not
	Differs        Kind = "differs"          // what came back is not as it was
	PortWorse      Kind = "port-worse"       // a port came back or into the job without its link, or came back with a slower one
	LeaseTaken     Kind = "lease-taken"      // a lease counts from now on
	LeaseRefused   Kind = "lease-refused"    // the job asked for what it cannot have
	LeaseReturned  Kind = "lease-returned"   // all of a lease is undone
	LeaseCleanedUp Kind = "lease-cleaned-up" // and nobody but the cleanup would have done it
	LeaseSpared    Kind = "lease-spared"     // a cleanup left a lease alone, since its job is not gone for sure
	Traffic        Kind = "traffic"          // what a port of an HCA carried for a job
	HCAQuarantined Kind = "hca-quarantined"  // no job gets it until a person has looked
	HCAReleased    Kind = "hca-released"     // a person has
	TableUnread    Kind = "table-unread"     // an entry of the node table does not read
	ModeSet        Kind = "mode-set"         // the RDMA netns mode was changed
	ModeWrong      Kind = "mode-wrong"       // it is not what the configuration wants
	Remark         Kind = "remark"           // what a person may want to know besides
)

// Kinds returns all of them.
func Kinds() []Kind {
	return []Kind{
		StepDone, StepFailed, Differs, PortWorse, LeaseTaken, LeaseRefused, LeaseReturned, LeaseCleanedUp,
		LeaseSpared, Traffic, HCAQuarantined, HCAReleased, TableUnread, ModeSet, ModeWrong, Remark,
	}
}

// Event is one thing that happened, for the log.
type Event struct {
	Kind   Kind
	Job    uint32 // 0 if it is no job's
	HCA    string // its identity, if the event is about one
	Notice string // what a person may want to know without acting on it

	Warning string // what a person must know though nothing failed

	// Of a step.
	Verb   string // do, finish, undo, verify
	Step   string // its kind: rdma, link
	Action string // all of it, for people: "do rdma mlx5_3"
	Took   time.Duration
	Err    error

	Reason gres.Reason // of a refusal
	ID     string      // of the message

	// Of traffic.
	Identity node.ID
	Device   string // the RDMA device's name on the node
	Run      string // which run of the job it was
	Port     *counters.Traffic
}

// FirstOf returns the first of some names for a text, and how many more there are.
func FirstOf(names []string) string {
	const some = 3
	text := strings.Join(names[:min(some, len(names))], ", ")
	if more := len(names) - some; more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	return text
}
