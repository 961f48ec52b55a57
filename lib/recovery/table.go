package recovery

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"gresnet/lib/journal"
	"gresnet/lib/node"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// Rebuild fills a table from the journals of leases. look adds the HCAs that the node has. If a
// journal does not say what its lease holds, Rebuild quarantines all HCAs that no other lease has.
func Rebuild(t *table.Table, books []Book, look func(*table.Table) error, now func() time.Time) error {
	var unreadable []Book
	for _, b := range books {
		if !b.Claim(t) {
			unreadable = append(unreadable, b)
			b.addNumbers(t)
			b.quarantineNoted(t, now())
		}
	}
	// Who freed the last slot of an HCA has opened its device nodes, even if no strike says so.
	for _, s := range t.Unshared() {
		t.Unshare(s.HCA)
	}
	if len(t.Claims) == 0 && len(unreadable) == 0 {
		return nil // who claims the first HCA numbers them
	}
	if err := look(t); err != nil {
		return err
	}
	renumber(t)
	for _, b := range unreadable {
		for _, h := range t.HCAs {
			b.quarantineUnknown(t, h.ID, h.Name, now())
		}
	}
	return nil
}

// renumber restores the order of a table's HCAs. A claimed HCA has the index of its claim; with
// another index, Slurm would take it for a free one. The others fill the rest in the order of their
// PCI addresses, as at first. If the site numbers the HCAs, the order does not matter.
func renumber(t *table.Table) {
	rest := slices.Clone(t.HCAs)
	slices.SortFunc(rest, func(a, b node.HCA) int { return node.Compare(a.ID, b.ID) })
	placed := map[int]node.HCA{}
	for _, c := range t.Claims {
		i := slices.IndexFunc(rest, func(h node.HCA) bool { return h.ID == c.HCA && !c.HCA.IsSlot() })
		_, taken := placed[c.Index]
		// A claim that Rebuild made in place of an unreadable one has no index.
		if c.Gres == "" || i < 0 || taken || c.Index < 0 || c.Index >= len(t.HCAs) {
			continue
		}
		placed[c.Index] = rest[i]
		rest = slices.Delete(rest, i, i+1)
	}
	for i := range t.HCAs {
		if h, is := placed[i]; is {
			t.HCAs[i] = h
			continue
		}
		t.HCAs[i], rest = rest[0], rest[1:]
	}
}

// Book is a journal that Rebuild reads for its claims.
type Book struct {
	*journal.Journal
	Job   uint32
	Aside bool // of a lease that was damaged and set aside
}

// Claim puts the claims of the journal's lease into a table, and tells whether the journal has all
// of them.
func (b Book) Claim(t *table.Table) bool {
	for _, note := range b.Notes {
		s, err := step.Decode(note.Kind, note.Data)
		c, is := s.(*step.Claim)
		if err != nil || !is {
			continue
		}
		if !note.Struck {
			b.restore(t, c)
		}
		return true
	}
	// A prolog that has not come so far yet has claimed nothing.
	return len(b.Notes) == 0 && len(b.Gaps) == 0
}

func (b Book) restore(t *table.Table, claim *step.Claim) {
	for _, c := range claim.Claims {
		c.Made = claim.Made
		rival := func(o table.Claim) bool { return o.HCA.Overlaps(c.HCA) }
		later := func(o table.Claim) bool { return rival(o) && !o.Before(c) }
		switch {
		case b.Aside && !slices.ContainsFunc(t.Claims, rival):
			c.Doubt, c.Quarantined = true, ErrDamaged.Error()+": the lease of job "+strconv.FormatUint(uint64(b.Job), 10)+" was set aside"
			t.Claims = append(t.Claims, c)
		case !b.Aside && !slices.ContainsFunc(t.Claims, later):
			// A rival lease may be younger nevertheless: its claim was freed before this one was made.
			t.Claims = append(slices.DeleteFunc(t.Claims, rival), c)
		}
	}
	if u := claim.Uplink; u != nil && !b.Aside && !slices.Contains(t.Addresses(), u.Address) {
		t.Uplinks = append(t.Uplinks, *u)
		for _, f := range claim.Forwarding {
			if !slices.ContainsFunc(t.Forwarding, func(o table.Forwarding) bool { return o.Index == f.Index }) {
				t.Forwarding = append(t.Forwarding, f)
			}
		}
	}
	for _, s := range claim.Shared {
		if t.SharedOf(s.HCA) == nil {
			t.Shared = append(t.Shared, s)
		}
	}
	for _, h := range claim.HCAs {
		if !slices.ContainsFunc(t.HCAs, func(o node.HCA) bool { return o.ID == h.ID }) {
			t.HCAs = append(t.HCAs, h)
		}
	}
}

// quarantineNoted quarantines the HCAs that notes are about, of a journal that has no claim.
func (b Book) quarantineNoted(t *table.Table, now time.Time) {
	if b.Aside {
		return
	}
	for _, note := range b.Notes {
		s, err := step.Decode(note.Kind, note.Data)
		if err == nil && !note.Struck && s.HCA() != (node.ID{}) {
			b.quarantineUnknown(t, s.HCA(), s.Object(), now)
		}
	}
}

// quarantineUnknown quarantines an HCA that the lease may have, unless another lease has it.
func (b Book) quarantineUnknown(t *table.Table, id node.ID, name string, now time.Time) {
	// If others have slots of an HCA, it may have another slot.
	if slices.ContainsFunc(t.Claims, func(c table.Claim) bool { return c.HCA == id || c.HCA == id.Whole() }) {
		return
	}
	c := table.Claim{HCA: id, Name: name, Job: b.Job, Run: b.Header.Run, Since: now, Doubt: b.Aside}
	c.Quarantined = fmt.Sprintf("the node table was damaged, and the lease of job %d does not say which HCAs it has", b.Job)
	t.Claims = append(t.Claims, c)
}

// addNumbers adds HCAs to a table that other notes than the claim name, so that HCAs that are away
// keep their numbers.
func (b Book) addNumbers(t *table.Table) {
	for _, note := range b.Notes {
		s, err := step.Decode(note.Kind, note.Data)
		if err != nil || s.Kind() != "access" {
			continue
		}
		if !slices.ContainsFunc(t.HCAs, func(h node.HCA) bool { return h.ID == s.HCA().Whole() }) {
			t.HCAs = append(t.HCAs, node.HCA{ID: s.HCA().Whole(), Name: s.Object()})
		}
	}
}
