package table

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"gresnet/lib/devnode"
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

// Table is the content of node.json.
type Table struct {
	Version int    `json:"version"`
	Sum     string `json:"sum"` // of the file, see seal
	// HCAs lists the node's HCAs in the order of their numbers. The order holds until the next
	// boot: an HCA that goes away must not shift the others.
	HCAs   []node.HCA `json:"hcas"`
	Claims []Claim    `json:"claims"`
	// Uplinks lists the jobs' addresses. A table without any has no such key, so that programs
	// which do not know uplinks can read it.
	Uplinks []Uplink `json:"uplinks,omitempty"`
	// Forwarding lists the interfaces that forward for jobs' uplinks, as long as there are any.
	Forwarding []Forwarding `json:"forwarding,omitempty"`
	// Shared lists the HCAs of which jobs have slots, with who could open their device nodes before
	// the first of these jobs. A table without any has no such key.
	Shared []Shared `json:"shared,omitempty"`
	// Deferred lists the settings that interfaces still lack (lib/opened, deferred.go).
	Deferred []Deferred `json:"owed,omitempty"`
}

// clone returns a copy. Whoever changes the copy does not change t.
func (t Table) clone() Table {
	t.HCAs, t.Claims, t.Uplinks = slices.Clone(t.HCAs), slices.Clone(t.Claims), slices.Clone(t.Uplinks)
	t.Deferred, t.Forwarding = slices.Clone(t.Deferred), slices.Clone(t.Forwarding)
	t.Shared = slices.Clone(t.Shared)
	return t
}

// Uplink says that a job's run has an address, by which it reaches the management network.
type Uplink struct {
	Type    string     `json:"type"` // veth or macvlan; an older prolog's may be ipvlan
	Address netip.Addr `json:"address"`
	Job     uint32     `json:"job"`
	Run     string     `json:"run"`
	Auto    bool       `json:"auto,omitempty"` // the node has to forward answers to it
}

// Forwarding says that an interface of the node forwards for jobs, and which settings it had
// before. The epilog of the last of these jobs restores them.
type Forwarding struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Router says that the node forwarded by its other interfaces already.
	Router bool `json:"router,omitempty"`
	// LRO lists the interfaces, by index, on which the kernel switched off large receive offload.
	LRO []int `json:"lro,omitempty"`
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
	HCA   node.ID   `json:"hca"`
	Name  string    `json:"name"` // of the RDMA device when it was claimed
	Gres  string    `json:"gres"`
	Index int       `json:"index"`
	Job   uint32    `json:"job"`
	Run   string    `json:"run"`
	UID   uint32    `json:"uid"`
	Since time.Time `json:"since"`
	// Made is when the HCA was claimed, by the time since the node's boot. Only the journal has it:
	// older programs refuse a table with a key that they do not know.
	Made        time.Duration `json:"-"`
	Quarantined string        `json:"quarantined,omitempty"` // why no job may have it
	// Doubt says that no lease remembers the HCA's former state, so that a person must look at it.
	Doubt bool `json:"doubt,omitempty"`
}

// Before tells whether c was made before o. It compares wall clocks, which somebody may set, only if
// one of the two claims has nothing else.
func (c Claim) Before(o Claim) bool {
	if c.Made == 0 || o.Made == 0 {
		return c.Since.Before(o.Since)
	}
	return c.Made < o.Made
}

// Holder returns a claim that keeps others from an HCA or a slot, if there is one.
func (t *Table) Holder(id node.ID) (Claim, bool) {
	i := slices.IndexFunc(t.Claims, func(c Claim) bool { return c.HCA.Overlaps(id) })
	if i < 0 {
		return Claim{}, false
	}
	return t.Claims[i], true
}

// Unclaimed returns the table's HCAs and others, but for those of which a job has a part.
func (t *Table) Unclaimed(others []node.ID) (ids []node.ID) {
	for _, h := range t.HCAs {
		others = append(others, h.ID)
	}
	return slices.DeleteFunc(others, func(id node.ID) bool {
		return slices.ContainsFunc(t.Claims, func(c Claim) bool { return c.HCA.Whole() == id.Whole() })
	})
}

// Of returns the claims of a job's run, and the HCAs that it claims.
func (t *Table) Of(job uint32, run string) (hcas []node.HCA, claims []Claim) {
	for _, c := range t.Claims {
		if c.Job != job || c.Run != run {
			continue
		}
		claims = append(claims, c)
		i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == c.HCA.Whole() })
		if i >= 0 && !slices.ContainsFunc(hcas, func(h node.HCA) bool { return h.ID == t.HCAs[i].ID }) {
			hcas = append(hcas, t.HCAs[i])
		}
	}
	return hcas, claims
}

// Release removes the claims of a job's run, of those in doubt only its own: a lease that was set aside
// can have had the same job's number and run, since slurmctld counts anew when it has lost its state. It
// quarantines the HCAs in away, which could not be brought home; away has the reasons.
func (t *Table) Release(job uint32, run string, own func(node.ID) bool, away map[node.ID]string) {
	kept := t.Claims[:0]
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run && (!c.Doubt || own(c.HCA)) {
			if c.Quarantined = away[c.HCA]; c.Quarantined == "" {
				continue
			}
		}
		kept = append(kept, c)
	}
	t.Claims = kept
}

// Noted returns a function that tells which claims are a lease's own: those that its note has, and all
// if the lease was set aside.
func Noted(claims []Claim, aside bool) func(node.ID) bool {
	return func(id node.ID) bool {
		return aside || slices.ContainsFunc(claims, func(c Claim) bool { return c.HCA == id })
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

// UplinksOf returns all uplinks that a job has.
func (t *Table) UplinksOf(job uint32) []Uplink {
	return slices.DeleteFunc(slices.Clone(t.Uplinks), func(u Uplink) bool { return u.Job != job })
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

// LeadOut tells whether the node has to forward for any job.
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
		all = append(all, u.Job)
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
