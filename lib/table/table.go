package table

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"gresnet/lib/node"
)

// Version is the format of node.json that this program writes and reads.
const Version = 1

var (
	// ErrVersion means that another version of gresnet wrote node.json.
	ErrVersion = errors.New("node table of another version")
	// ErrDamaged means that node.json is not as it was written, or contradicts itself.
	ErrDamaged = errors.New("node table damaged")
)

// Table is what the node lock file guards.
type Table struct {
	Version int    `json:"version"`
	Sum     string `json:"sum"` // of the file, see seal
	// HCAs are the node's, in the order in which they are numbered. The order
	// is kept for the boot: an HCA that is away must not shift the others.
	HCAs   []node.HCA `json:"hcas"`
	Claims []Claim    `json:"claims"`
	// Uplinks are the addresses that jobs have. A table without any is as one of
	// a program that does not know them.
	Uplinks []Uplink `json:"uplinks,omitempty"`
	// Forwarding are the interfaces that forward for jobs' ways out, as long as there are any.
	Forwarding []Forwarding `json:"forwarding,omitempty"`
	// Owed is what interfaces are still to have, see package lease.
	Owed []Owed `json:"owed,omitempty"`
}

// clone is a table that can be changed without changing this one.
func (t Table) clone() Table {
	t.HCAs, t.Claims, t.Uplinks = slices.Clone(t.HCAs), slices.Clone(t.Claims), slices.Clone(t.Uplinks)
	t.Owed, t.Forwarding = slices.Clone(t.Owed), slices.Clone(t.Forwarding)
	return t
}

// Uplink says that a job's run has an address by which it reaches the management network.
type Uplink struct {
	Type    string     `json:"type"` // macvlan, ipvlan or veth
	Address netip.Addr `json:"address"`
	Job     uint32     `json:"job"`
	Run     string     `json:"run"`
	Auto    bool       `json:"auto,omitempty"` // it needs the node to forward what comes back
}

// Forwarding says that an interface of the node forwards for jobs, and how it was before. It is
// made so again when the last of these jobs is gone.
type Forwarding struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Router says that the node forwarded by its other interfaces.
	Router bool `json:"router,omitempty"`
	// LRO lists the interfaces, by index, on which the kernel switched off large receive offload.
	LRO []int `json:"lro,omitempty"`
}

// Claim says that an HCA is not free: a job's run has it, or it was quarantined.
type Claim struct {
	HCA         node.ID   `json:"hca"`
	Name        string    `json:"name"` // of the RDMA device when it was claimed
	Gres        string    `json:"gres"`
	Index       int       `json:"index"`
	Job         uint32    `json:"job"`
	Run         string    `json:"run"`
	UID         uint32    `json:"uid"`
	Since       time.Time `json:"since"`
	Quarantined string    `json:"quarantined,omitempty"` // why no job may have it
	// Doubt says that no lease remembers any more what it was like: whether it is so is a
	// person's to see.
	Doubt bool `json:"doubt,omitempty"`
}

// Holder is who has an HCA, if anybody has.
func (t *Table) Holder(id node.ID) (Claim, bool) {
	i := slices.IndexFunc(t.Claims, func(c Claim) bool { return c.HCA == id })
	if i < 0 {
		return Claim{}, false
	}
	return t.Claims[i], true
}

// Of is what a run of a job holds: its claims, and the HCAs that they are about.
func (t *Table) Of(job uint32, run string) (hcas []node.HCA, claims []Claim) {
	for _, c := range t.Claims {
		if c.Job != job || c.Run != run {
			continue
		}
		claims = append(claims, c)
		i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == c.HCA })
		if i >= 0 {
			hcas = append(hcas, t.HCAs[i])
		}
	}
	return hcas, claims
}

// Release frees what a run of a job holds, but keeps from every later job
// what could not be brought home: the reason by HCA.
func (t *Table) Release(job uint32, run string, away map[node.ID]string) {
	kept := t.Claims[:0]
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run {
			if c.Quarantined = away[c.HCA]; c.Quarantined == "" {
				continue
			}
		}
		kept = append(kept, c)
	}
	t.Claims = kept
}

// Uplink is what a run of a job has, nil if it has none.
func (t *Table) Uplink(job uint32, run string) *Uplink {
	i := slices.IndexFunc(t.Uplinks, func(u Uplink) bool { return u.Job == job && u.Run == run })
	if i < 0 {
		return nil
	}
	u := t.Uplinks[i]
	return &u
}

// Addresses are those that are taken.
func (t *Table) Addresses() []netip.Addr {
	var all []netip.Addr
	for _, u := range t.Uplinks {
		all = append(all, u.Address)
	}
	return all
}

// FreeUplink frees the address of a run of a job.
func (t *Table) FreeUplink(job uint32, run string) {
	t.Uplinks = slices.DeleteFunc(t.Uplinks, func(u Uplink) bool { return u.Job == job && u.Run == run })
}

// LeadOut tells whether any job needs the node to forward for it.
func (t *Table) LeadOut() bool {
	return slices.ContainsFunc(t.Uplinks, func(u Uplink) bool { return u.Auto })
}

// Jobs are those that have an HCA or an address. What was set aside no job has.
func (t *Table) Jobs() []uint32 {
	var all []uint32
	for _, c := range t.Claims {
		if !c.Doubt {
			all = append(all, c.Job)
		}
	}
	for _, u := range t.Uplinks {
		all = append(all, u.Job)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
