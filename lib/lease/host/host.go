// Package host reads the node for leases and for people: what the node has, which HCAs a job
// would get, what a move would lose, and what the node itself cannot do without. It changes
// nothing on the node and takes no lock.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// Host is the node, with what is handed in from outside.
type Host struct {
	State  state.Dir
	Sys    fs.FS  // the node's /sys
	Proc   fs.FS  // the node's /proc
	Run    fs.FS  // the node's /run, where managers of interfaces keep their state
	Dev    string // /dev/infiniband
	CM     string // RDMA-CM's folder in configfs, /sys/kernel/config/rdma_cm
	Guard  bpf.Guard
	Files  fs.FS // the node's files from / on, for slurm.conf; nil: it is not read
	Slurm  Slurm
	Config config.Config
	Log    func(event.Event)
	Now    func() time.Time
	Undo   time.Duration // how long one rollback may take; 0: as long as the lease says

	// Joined fails if Slurm's tasks would not join the lease of their job; nil: Slurm starts none.
	Joined func() error

	// Timed takes times that no step took: the looks before the first of them, waits between, the journal.
	// nil: it is not told.
	Timed func(what string, took time.Duration)

	gpus gres.GPUNumbers
}

// Slurm is what Slurm calls the node, and where its configuration is.
type Slurm struct {
	Name string // NodeName
	Conf string // path of slurm.conf; empty: look in the usual places

	// Resolve finds the addresses of a name; nil: as the node does, by its files and by DNS.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Time begins to measure what no step takes. To call done ends it.
func (n *Host) Time(what string) (done func()) {
	start := n.Now()
	return func() { n.Took(what, n.Now().Sub(start)) }
}

// Took says what took time that no step took.
func (n *Host) Took(what string, time time.Duration) {
	if n.Timed != nil {
		n.Timed(what, time)
	}
}

// Table is the node table.
func (n *Host) Table() table.Folder { return table.Folder(n.State) }

// Leased are the jobs that have a lease, or claims or an uplink without one; those
// of whose lease a person has to see what it left are none.
func (n *Host) Leased() ([]uint32, error) {
	entries, err := os.ReadDir(n.State.Jobs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, n.State.Fault(err)
	}
	t, err := n.Table().Read()
	if err != nil {
		return nil, err
	}
	var jobs []uint32
	for _, e := range entries {
		if id, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
			jobs = append(jobs, uint32(id))
		}
	}
	for _, id := range t.Jobs() {
		if !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	slices.Sort(jobs)
	return jobs, nil
}

// Readable is the table as far as it can be read.
func (n *Host) Readable(id uint32) table.Table {
	t, err := n.Table().Read()
	if err != nil {
		n.Notice(id, "%s", err)
	}
	return t
}

// Notice tells of what a person may want to know.
func (n *Host) Notice(job uint32, format string, a ...any) { n.Tell(event.Remark, job, format, a...) }

// Tell tells of an event that has nothing but a text.
func (n *Host) Tell(kind event.Kind, job uint32, format string, a ...any) {
	n.Log(event.Event{Kind: kind, Job: job, Notice: fmt.Sprintf(format, a...)})
}

// TellQuarantines tells which HCAs are kept from later jobs.
func (n *Host) TellQuarantines(job uint32, away map[node.ID]string) {
	events := make([]event.Event, 0, len(away))
	for id, reason := range away {
		events = append(events, event.Event{
			Kind: event.HCAQuarantined, Job: job, HCA: id.String(),
			Notice: fmt.Sprintf("HCA %s is kept from later jobs: %s", id, reason),
		})
	}
	slices.SortFunc(events, func(a, b event.Event) int { return cmp.Compare(a.HCA, b.HCA) })
	for _, e := range events {
		n.Log(e)
	}
}
