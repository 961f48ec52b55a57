// Package inspect shows a person, and whoever counts, what the node has: who holds which HCA,
// what a lease still has to undo, and what a prolog would do now. It changes nothing.
package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"gresnet/lib/clock"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/pkey"
	"gresnet/lib/proc"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// errNoLease means that a job has no lease.
var errNoLease = errors.New("no lease")

// Status is what jobs hold on the node.
type Status struct {
	HCAs   []HCAStatus
	Leases []JobStatus
	// Deferred lists the settings that an interface gets when interfaces that other jobs have are home.
	Deferred []DeferredStatus
	Drift    error // why there is no mapping: no HCA has a GRES then
}

// HCAStatus is who has an HCA. Claim is nil for one that is free.
type HCAStatus struct {
	HCA     node.HCA // empty for one that is missing
	Gres    string   // empty if the mapping lacks it
	Index   int
	Claim   *table.Claim
	Moving  bool   // a move of its RDMA device has not ended
	Gone    bool   // no job has it, and neither has the node
	Missing string // why no HCA is known to be the mapping's entry
	User    string // no job has it: processes of users, which use it all the same

	// PKey is that of the interface that the job with the slot has. If the slot is free, it is what
	// the next job gets unless a policy says otherwise. 0: none, or only policies say it.
	PKey pkey.PKey
}

// JobStatus is a job's lease.
type JobStatus struct {
	Job    uint32
	Run    string
	State  string
	Age    time.Duration
	Uplink string         // its address on the management network
	Steps  []proc.Process // slurmstepd processes
	Left   []LeftStatus   // what its epilog will undo

	pkeys map[node.ID]pkey.PKey // of its interfaces, by slot
}

// DeferredStatus has the settings that an interface at home shares with others that were not.
type DeferredStatus struct {
	Job       uint32 // which had it
	Interface string
	With      []string
	What      []string
}

// LeftStatus is one step that is to be undone.
type LeftStatus struct {
	Kind   string
	Object string
}

// The states of a lease.
const (
	Complete = "complete" // it counts
	Refused  = "refused"  // the job asked for what it cannot have
	Partial  = "partial"  // a prolog or an epilog is at work, or did not end as it should
	Damaged  = "damaged"  // its journal cannot be read
)

// ReadStatus reads what jobs hold, and changes nothing.
func ReadStatus(n *host.Host) (Status, error) {
	var s Status
	t, err := n.Table().Read()
	if err != nil {
		return s, err
	}
	if len(t.HCAs) == 0 {
		if err := n.AddHCAs(&t); err != nil {
			return s, err
		}
	}
	mapping, drift := n.Map(t.HCAs)
	// What is missing may have come since, which the next prolog will find, too.
	if mapping.Drift() != nil && n.AddHCAs(&t) == nil {
		mapping, drift = n.Map(t.HCAs)
	}
	s.Drift = drift
	for _, o := range t.Deferred {
		s.Deferred = append(s.Deferred, DeferredStatus{o.Job, o.Of[0].Name, o.Sharers(), o.Shared.What()})
	}
	for _, h := range t.HCAs {
		s.HCAs = append(s.HCAs, hcaStatus(n, &t, mapping, h)...)
	}
	if err := hint.Join(miss(n, s.HCAs), markUsed(n, s.HCAs)); err != nil {
		return s, err
	}
	s.HCAs = append(s.HCAs, missing(mapping)...)
	jobs, err := n.Leased()
	if err != nil {
		return s, err
	}
	// One look for all jobs: it reads all processes of the node.
	var steps proc.AllSteps
	if len(jobs) > 0 {
		if steps, err = proc.LookForSteps(); err != nil {
			return s, err
		}
	}
	for _, id := range jobs {
		j, err := jobStatus(n, id, steps)
		if errors.Is(err, errNoLease) {
			continue
		}
		if err != nil {
			return s, err
		}
		if u := t.Uplink(id, j.Run); u != nil {
			j.Uplink = u.Address.String()
		}
		for i := range s.HCAs {
			if h := &s.HCAs[i]; h.Claim != nil && h.Claim.Job == id && h.Claim.Run == j.Run {
				h.PKey = j.pkeys[h.HCA.ID]
			}
		}
		s.Leases = append(s.Leases, j)
	}
	return s, nil
}

// hcaStatus says who has an HCA, or each of its slots.
func hcaStatus(n *host.Host, t *table.Table, m gres.Mapping, h node.HCA) (list []HCAStatus) {
	moving := lock.Held(n.State.Locks(), h.ID)
	for _, e := range m {
		if e.Drift == nil && e.HCA.ID.Whole() == h.ID {
			list = append(list, HCAStatus{HCA: e.HCA, Gres: e.Gres, Index: e.Index, Moving: moving, PKey: e.PKey})
		}
	}
	if len(list) == 0 {
		list = []HCAStatus{{HCA: h, Moving: moving}}
	}
	for i := range list {
		if c, held := t.Holder(list[i].HCA.ID); held {
			list[i].Claim, list[i].PKey = &c, 0
		}
	}
	return list
}

// missing are the entries of a mapping of which it is not known which HCAs they are.
func missing(m gres.Mapping) (list []HCAStatus) {
	for _, e := range m {
		if e.Drift != nil {
			list = append(list, HCAStatus{Gres: e.Gres, Index: e.Index, Missing: e.Drift.Error()})
		}
	}
	return list
}

// miss marks HCAs that should be in the root namespace and are not. The node table
// keeps them, since the numbers of the others must stay while jobs have them.
func miss(n *host.Host, hcas []HCAStatus) error {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil && !errors.Is(err, rdma.ErrNoRDMA) {
		return err
	}
	if err == nil {
		defer v.Close()
	}
	for i := range hcas {
		h := &hcas[i]
		if h.Claim != nil || h.Moving {
			continue
		}
		if v == nil {
			h.Gone = true
			continue
		}
		_, err := v.Find(h.HCA.ID)
		if h.Gone = errors.Is(err, scan.ErrNotFound) || errors.Is(err, rdma.ErrNoRDMA); err != nil && !h.Gone {
			return err
		}
	}
	return nil
}

func jobStatus(n *host.Host, id uint32, steps proc.AllSteps) (JobStatus, error) {
	s, err := leaseStatus(n, id)
	if err != nil || s.State == Damaged {
		return s, err
	}
	if s.Steps, err = steps.Of(id); err != nil {
		return s, fmt.Errorf("look for the steps of job %d: %w", id, err)
	}
	return s, nil
}

// leaseStatus is what the lease itself says.
func leaseStatus(n *host.Host, id uint32) (JobStatus, error) {
	s := JobStatus{Job: id, pkeys: map[node.ID]pkey.PKey{}}
	book, err := journal.Read(n.State.Lease(id).Journal())
	if errors.Is(err, fs.ErrNotExist) {
		return s, errNoLease
	}
	if err != nil || len(book.Gaps) > 0 || book.Header == (journal.Header{}) {
		s.State = Damaged
		return s, nil
	}
	s.Run, s.Age = book.Header.Run, clock.SinceBoot()-book.Header.Since
	for _, note := range book.Notes {
		if note.Struck {
			continue
		}
		left := LeftStatus{Kind: note.Kind}
		if decoded, err := step.Decode(note.Kind, note.Data); err == nil {
			left.Object = decoded.Object()
			if child, is := decoded.(*step.Child); is && child.PKey != 0 {
				s.pkeys[child.Of] = child.PKey
			}
		}
		s.Left = append(s.Left, left)
	}
	text, err := os.ReadFile(n.State.Lease(id).Env())
	switch {
	case err != nil:
		s.State = Partial
	case strings.Contains(string(text), "\nGRESNET_REFUSED="):
		s.State = Refused
	default:
		s.State = Complete
	}
	return s, nil
}

// markUsed marks HCAs that no job has and users use.
func markUsed(n *host.Host, hcas []HCAStatus) error {
	u, err := n.Users()
	if err != nil {
		return err
	}
	defer u.Close()
	if err := u.SearchFree(); err != nil {
		return err
	}
	for i := range hcas {
		if h := &hcas[i]; h.Claim == nil && h.HCA.ID != (node.ID{}) {
			h.User = u.Found(h.HCA.ID)
		}
	}
	return nil
}
