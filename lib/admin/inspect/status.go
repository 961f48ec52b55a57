// Package inspect shows a person, and whoever counts, what the node has: who holds which HCA,
// what a lease still has to undo, and what a prolog would do now. It changes nothing.
package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// errNoLease means that a job has no lease.
var errNoLease = errors.New("no lease")

// The states of a lease.
const (
	Complete = "complete" // it counts
	Refused  = "refused"  // the job asked for what it cannot have
	Partial  = "partial"  // a prolog or an epilog is at work, or did not end as it should
	Damaged  = "damaged"  // its journal cannot be read
)

// ReadStatus reads what jobs hold, and changes nothing.
func ReadStatus(n *host.Host) (*report.Status, error) {
	s := &report.Status{HCAs: []report.HCA{}, Leases: []report.Lease{}}
	t, err := recorded(n)
	if err != nil {
		return s, err
	}
	mapping, drift := n.Map(t.HCAs)
	// What is missing may have come since, which the next prolog will find, too.
	if mapping.Drift() != nil && n.AddHCAs(&t) == nil {
		mapping, drift = n.Map(t.HCAs)
	}
	s.Drift = drift
	for _, h := range t.HCAs {
		s.HCAs = append(s.HCAs, hcaStatus(n, &t, mapping, h)...)
	}
	if err := hint.Join(miss(n, s.HCAs), markUsed(n, s.HCAs)); err != nil {
		return s, err
	}
	s.HCAs = append(s.HCAs, missing(mapping)...)
	if err := addLeases(s, n, &t); err != nil {
		return s, err
	}
	if s.Unjudged, err = unjudged(n, &t); err != nil {
		return s, err
	}
	for i := range s.HCAs {
		s.HCAs[i].State = StateOf(s.HCAs[i])
	}
	return s, nil
}

// addLeases adds the leases, and the P_Keys that jobs have by them.
func addLeases(s *report.Status, n *host.Host, t *table.Table) error {
	jobs, err := n.Leased()
	if err != nil {
		return err
	}
	// One look for all jobs: it reads all processes of the node.
	var steps proc.AllSteps
	if len(jobs) > 0 {
		if steps, err = proc.LookForSteps(); err != nil {
			return err
		}
	}
	dropped, err := droppedBy(n, t)
	if err != nil {
		return err
	}
	for _, id := range jobs {
		j, keys, err := jobStatus(n, id, steps)
		if errors.Is(err, errNoLease) {
			continue
		}
		if err != nil {
			return err
		}
		if u := t.Uplink(id, j.Run); u != nil {
			j.Uplink, j.Dropped = u.Address.String(), dropped[id]
		}
		for i := range s.HCAs {
			if h := &s.HCAs[i]; h.Claim != nil && h.Claim.Job == id && h.Claim.Run == j.Run {
				h.PKey = node.PKeyText(keys[h.ID])
			}
		}
		s.Leases = append(s.Leases, j)
	}
	return nil
}

// droppedBy returns how many packets of jobs were dropped because of their ports.
func droppedBy(n *host.Host, t *table.Table) (map[uint32]uint64, error) {
	all := map[uint32]uint64{}
	if !t.LeadOut() {
		return all, nil
	}
	list, err := ports.In(n.Guard.Pins).Jobs()
	for _, j := range list {
		all[j.ID] = j.Dropped
	}
	return all, err
}

// unjudged returns the names of the interfaces by which jobs' packets go and that lack programs.
func unjudged(n *host.Host, t *table.Table) (names []string, err error) {
	if !t.LeadOut() {
		return nil, nil
	}
	list, err := ports.In(n.Guard.Pins).Unjudged()
	for _, b := range t.Hooked {
		if slices.Contains(list, b.Index) {
			names = append(names, b.Name)
		}
	}
	return names, err
}

// recorded returns the node table, with the node's HCAs if it has none yet.
func recorded(n *host.Host) (table.Table, error) {
	t, err := n.Table().Read()
	if err == nil && len(t.HCAs) == 0 {
		err = n.AddHCAs(&t)
	}
	return t, err
}

// hcaStatus says who has an HCA, or each of its slots.
func hcaStatus(n *host.Host, t *table.Table, m gres.Mapping, h node.HCA) (list []report.HCA) {
	moving := state.IsMoving(n.State.Locks(), h.ID)
	for _, e := range m {
		if e.Drift == nil && e.HCA.ID.Whole() == h.ID {
			part := report.Known(e.HCA)
			part.Have(e.Gres, "", e.Index)
			part.Moving, part.PKey = moving, node.PKeyText(e.PKey)
			list = append(list, part)
		}
	}
	if len(list) == 0 {
		unmapped := report.Known(h)
		unmapped.Moving = moving
		list = []report.HCA{unmapped}
	}
	for i := range list {
		if c, held := t.Holder(list[i].ID); held {
			list[i].Claim, list[i].PKey = claimOf(c), 0
		}
	}
	return list
}

// missing returns the entries of a mapping whose HCAs are not known.
func missing(m gres.Mapping) (list []report.HCA) {
	for _, e := range m {
		if e.Drift != nil {
			h := report.HCA{Missing: e.Drift.Error()}
			h.Have(e.Gres, "", e.Index)
			list = append(list, h)
		}
	}
	return list
}

// claimOf returns a claim of the node table.
func claimOf(c table.Claim) *report.Claim {
	return &report.Claim{Job: c.Job, Run: c.Run, UID: c.UID, Since: c.Since, Quarantined: c.Quarantined, Doubt: c.Doubt}
}

// miss marks HCAs that should be in the root namespace and are not. The node table
// keeps them, since the numbers of the others must stay while jobs have them.
func miss(n *host.Host, hcas []report.HCA) error {
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
		_, err := v.Find(h.ID)
		if h.Gone = errors.Is(err, scan.ErrNotFound) || errors.Is(err, rdma.ErrNoRDMA); err != nil && !h.Gone {
			return err
		}
	}
	return nil
}

func jobStatus(n *host.Host, id uint32, steps proc.AllSteps) (s report.Lease, keys map[node.ID]node.PKey, err error) {
	s, keys, err = leaseStatus(n, id)
	if err != nil || s.State == Damaged {
		return s, nil, err
	}
	if s.Steps, err = steps.Of(id); err != nil {
		return s, nil, fmt.Errorf("look for the steps of job %d: %w", id, err)
	}
	return s, keys, nil
}

// leaseStatus returns what the lease itself says, and the P_Keys of the job's interfaces by slot.
func leaseStatus(n *host.Host, id uint32) (s report.Lease, keys map[node.ID]node.PKey, err error) {
	s, keys = report.Lease{Job: id}, map[node.ID]node.PKey{}
	undoLog, err := journal.Read(n.State.Lease(id).Journal())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, errNoLease
	}
	if err != nil || len(undoLog.Gaps) > 0 || undoLog.Header == (journal.Header{}) {
		s.State = Damaged
		return s, nil, nil
	}
	s.Run, s.Age = undoLog.Header.Run, proc.SinceBoot()-undoLog.Header.Since
	for _, entry := range undoLog.Entries {
		if entry.Undone {
			continue
		}
		left := report.Step{Kind: entry.Kind}
		if decoded, err := step.Decode(entry.Kind, entry.Data); err == nil {
			left.Object = decoded.Object()
			if child, is := decoded.(*step.Child); is && child.PKey != 0 {
				keys[child.Of] = child.PKey
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
	return s, keys, nil
}

// markUsed marks HCAs that no job has and users use.
func markUsed(n *host.Host, hcas []report.HCA) error {
	u, err := n.Users()
	if err != nil {
		return err
	}
	defer u.Close()
	for i := range hcas {
		if h := &hcas[i]; h.Claim == nil && h.ID != (node.ID{}) && !othersHave(hcas, h.ID) {
			h.User = u.Of(h.ID)
		}
	}
	return u.Err
}
