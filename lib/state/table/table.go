package table

import (
	"net/netip"
	"slices"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/ports"
)

// Table is what the node has for all jobs together, as its folders have it.
type Table struct {
	// HCAs lists the node's HCAs in the order of their numbers. The order holds until the next
	// boot: an HCA that goes away must not shift the others.
	HCAs   []node.HCA `json:"hcas"`
	Claims []Claim    `json:"claims"`
	// Uplinks lists the jobs' addresses. Job 0 has one whose link does not read.
	Uplinks []Uplink `json:"uplinks"`
	// Hooked lists the interfaces whose packets are judged for jobs' uplinks, as long as there are any.
	Hooked []ports.Before `json:"hooked"`
	// Shared lists the HCAs with slots that jobs have, and who could open their device nodes before
	// the first of these jobs.
	Shared []Shared `json:"shared"`
	// Unread lists the entries that do not read, with the HCA that no job gets for it; the zero ID if
	// there is none.
	Unread map[string]node.ID `json:"-"`
}

// Uplink says that a job's run has an address, by which it reaches the management network.
type Uplink struct {
	Type    string     `json:"type"` // veth or macvlan
	Address netip.Addr `json:"address"`
	Job     uint32     `json:"job"`
	Run     string     `json:"run"`
	Auto    bool       `json:"auto,omitempty"` // the node has to hand answers to it
}

// Shared says that jobs have slots of an HCA, and who could open its device nodes on the node before.
// The epilog of the last of these jobs restores that.
type Shared struct {
	HCA   node.ID        `json:"hca"`
	Name  string         `json:"name"`
	Nodes []devnode.Node `json:"nodes"`
}

// Claim says that an HCA is not free: a job's run has it, or it was quarantined.
type Claim struct {
	HCA         node.ID   `json:"hca"`
	Name        string    `json:"name"`          // of the RDMA device
	Job         uint32    `json:"job,omitempty"` // 0: it is not known any more who had it
	Run         string    `json:"run,omitempty"`
	UID         uint32    `json:"uid,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	Quarantined string    `json:"quarantined,omitempty"` // why no job may have it
	// Doubt says that no lease remembers the HCA's former state, so that a person must look at it.
	Doubt bool `json:"doubt,omitempty"`

	unread bool // an entry does not read, and that alone keeps the HCA from jobs
}

// Holder returns a claim that keeps others from an HCA or a slot, if there is one.
func (t *Table) Holder(id node.ID) (Claim, bool) {
	i := slices.IndexFunc(t.Claims, func(c Claim) bool { return c.HCA.Overlaps(id) })
	if i < 0 {
		return Claim{}, false
	}
	return t.Claims[i], true
}

// Unclaimed returns the table's HCAs and others, but for those that a job has a part of.
func (t *Table) Unclaimed(others []node.ID) (ids []node.ID) {
	for _, h := range t.HCAs {
		others = append(others, h.ID)
	}
	return slices.DeleteFunc(others, func(id node.ID) bool {
		return slices.ContainsFunc(t.Claims, func(c Claim) bool { return c.HCA.Whole() == id.Whole() })
	})
}

// Of returns the claims of a job's run.
func (t *Table) Of(job uint32, run string) (claims []Claim) {
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run {
			claims = append(claims, c)
		}
	}
	return claims
}

// Release removes the claims of a job's run that are a lease's own, as OwnClaims tells. It
// quarantines the HCAs in away, which could not be returned; away has the reasons.
func (t *Table) Release(job uint32, run string, own func(Claim) bool, away map[node.ID]string) {
	kept := t.Claims[:0]
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run && own(c) {
			if c.Quarantined = away[c.HCA]; c.Quarantined == "" {
				continue
			}
		}
		kept = append(kept, c)
	}
	t.Claims = kept
}

// OwnClaims returns a function that tells which claims of a job's run are a lease's own. A lease that was set aside and a
// later one can have the same job's number and run, since slurmctld counts from the beginning when it has lost its
// state. Both have those claims in doubt that their journal has; the later one also those that are not in doubt.
func OwnClaims(claims []Claim, aside bool) func(Claim) bool {
	return func(c Claim) bool {
		if !c.Doubt {
			return !aside
		}
		return slices.ContainsFunc(claims, func(own Claim) bool { return own.HCA == c.HCA })
	}
}

// Uplink returns the uplink of a job's run, or nil.
func (t *Table) Uplink(job uint32, run string) *Uplink {
	i := slices.IndexFunc(t.Uplinks, func(u Uplink) bool { return u.Job == job && u.Run == run })
	if i < 0 {
		return nil
	}
	u := t.Uplinks[i]
	return &u
}

// ClaimsOf returns a job's claims, without those that are in doubt already.
func (t *Table) ClaimsOf(job uint32) []Claim {
	return slices.DeleteFunc(slices.Clone(t.Claims), func(c Claim) bool { return c.Job != job || c.Doubt })
}

// RunOf returns the run of a job that has claims, without those in doubt, or an uplink. A job has one such run at a time.
func (t *Table) RunOf(job uint32) (run string, has bool) {
	for _, c := range t.ClaimsOf(job) {
		return c.Run, true
	}
	for _, u := range t.Uplinks {
		if u.Job == job {
			return u.Run, true
		}
	}
	return "", false
}

// Addresses returns the addresses that jobs have.
func (t *Table) Addresses() []netip.Addr {
	var all []netip.Addr
	for _, u := range t.Uplinks {
		all = append(all, u.Address)
	}
	return all
}

// FreeUplink frees the address of a job's run.
func (t *Table) FreeUplink(job uint32, run string) {
	t.Uplinks = slices.DeleteFunc(t.Uplinks, func(u Uplink) bool { return u.Job == job && u.Run == run })
}

// LeadOut tells whether any job has an automatic uplink.
func (t *Table) LeadOut() bool {
	return slices.ContainsFunc(t.Uplinks, func(u Uplink) bool { return u.Auto })
}

// Jobs returns the jobs that have an HCA or an address. No job has an HCA that is in doubt.
func (t *Table) Jobs() []uint32 {
	var all []uint32
	for _, c := range t.Claims {
		if !c.Doubt {
			all = append(all, c.Job)
		}
	}
	for _, u := range t.Uplinks {
		if u.Job != 0 {
			all = append(all, u.Job)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SharedOf returns what the table has of an HCA that jobs have slots of, or nil.
func (t *Table) SharedOf(id node.ID) *Shared {
	i := slices.IndexFunc(t.Shared, func(s Shared) bool { return s.HCA == id.Whole() })
	if i < 0 {
		return nil
	}
	return &t.Shared[i]
}

// Unshared returns the HCAs that the table has in Shared and no job has a slot of any more.
func (t *Table) Unshared() (list []Shared) {
	for _, s := range t.Shared {
		if !slices.ContainsFunc(t.Claims, func(c Claim) bool { return c.HCA.IsSlotOf(s.HCA) }) {
			list = append(list, s)
		}
	}
	return list
}

// Unshare removes an HCA from Shared.
func (t *Table) Unshare(id node.ID) {
	t.Shared = slices.DeleteFunc(t.Shared, func(s Shared) bool { return s.HCA == id })
}
