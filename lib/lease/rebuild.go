package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/journal"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

// rebuildTable makes the node table anew from the journals if it is damaged, or gone
// while there are leases. It is done under the node lock, under which the
// claims are noted, too: so each claim is in the table or in a journal.
func (n *Node) rebuildTable(ctx context.Context) error {
	kept, why, err := n.table().Rebuild(ctx, n.Now(), n.rebuild)
	if why == nil || err != nil {
		return err
	}
	text := fmt.Sprintf("%s: it was made anew from the leases", why)
	if kept != "" {
		text += ", the damaged one is kept as " + kept
	}
	if saysOwed(kept) {
		text += "; what interfaces were still to have (\"owed\") is not in it"
	}
	n.Log(Event{Kind: TableMended, Warning: text})
	return nil
}

// saysOwed tells whether a damaged table has what is owed, which nobody else remembers.
func saysOwed(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && bytes.Contains(text, []byte(`"owed": [`))
}

// rebuild fills a table with what the open leases hold. Where one does not say
// what it holds, no HCA that is not another's is free.
func (n *Node) rebuild(t *lock.Table) error {
	books, err := n.books()
	if err != nil || len(books) == 0 {
		return err
	}
	var unreadable []book
	for _, b := range books {
		if !b.claim(t) {
			unreadable = append(unreadable, b)
			b.addNumbers(t)
			b.quarantineNoted(t, n.Now())
		}
	}
	if len(t.Claims) == 0 && len(unreadable) == 0 {
		return nil // who claims the first HCA numbers them
	}
	if err := n.look(t); err != nil {
		return err
	}
	renumber(t)
	for _, b := range unreadable {
		for _, h := range t.HCAs {
			b.quarantineUnknown(t, h.ID, h.Name, n.Now())
		}
	}
	return nil
}

// renumber puts a table's HCAs in the order in which they were: those that are claimed
// have the index of their claim, which Slurm takes for another free HCA's otherwise. The
// others fill what is free in the order of their PCI addresses, as at first. Where the
// site numbers the HCAs the order is of no matter.
func renumber(t *lock.Table) {
	rest := slices.Clone(t.HCAs)
	slices.SortFunc(rest, func(a, b node.HCA) int { return node.Compare(a.ID, b.ID) })
	placed := map[int]node.HCA{}
	for _, c := range t.Claims {
		i := slices.IndexFunc(rest, func(h node.HCA) bool { return h.ID == c.HCA })
		_, taken := placed[c.Index]
		// A claim that stands in for one that does not read says no index.
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

// book is a journal as it is read for what it says of claims.
type book struct {
	*journal.Journal
	job   uint32
	aside bool // of a lease that was damaged and set aside
}

// books are the journals of all leases, and then of those that were set aside:
// what those had may not be as it was. Young ones come first: of two that claim an
// HCA it is the younger one's. The older one has freed it, or was killed before it had it.
func (n *Node) books() (books []book, err error) {
	for _, where := range []struct {
		dir   string
		aside bool
	}{{n.jobs(), false}, {n.setAsides(), true}} {
		entries, err := os.ReadDir(where.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, n.stateFault(err)
		}
		var found []book
		for _, e := range entries {
			name, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), "job-"), "-")
			id, err := strconv.ParseUint(name, 10, 32)
			if err != nil {
				continue // not ours
			}
			b := book{job: uint32(id), aside: where.aside}
			path := filepath.Join(where.dir, e.Name())
			if !b.aside {
				path = journalIn(path)
			}
			if b.Journal, err = n.readBook(path, b); err != nil {
				return nil, err
			}
			found = append(found, b)
		}
		slices.SortStableFunc(found, func(a, b book) int { return cmp.Compare(b.Header.Since, a.Header.Since) })
		books = append(books, found...)
	}
	return books, nil
}

// readBook reads a journal; what does not read, though it must have been
// written, is one gap.
func (n *Node) readBook(path string, b book) (*journal.Journal, error) {
	j, err := journal.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j = new(journal.Journal)
	case errors.Is(err, journal.ErrVersion):
		return &journal.Journal{Gaps: []journal.Gap{{Why: err.Error()}}}, nil
	case err != nil:
		return nil, err
	}
	if len(j.Notes) == 0 && !b.aside && n.begun(b.job) {
		j.Gaps = append(j.Gaps, journal.Gap{Why: "it is empty"})
	}
	return j, nil
}

// claim puts into a table what the journal's lease holds, and tells whether it
// says all of it.
func (b book) claim(t *lock.Table) bool {
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

func (b book) restore(t *lock.Table, claim *step.Claim) {
	for _, c := range claim.Claims {
		if _, held := t.Holder(c.HCA); held {
			continue
		}
		if b.aside {
			c.Doubt, c.Quarantined = true, ErrDamaged.Error()+": the lease of job "+strconv.FormatUint(uint64(b.job), 10)+" was set aside"
		}
		t.Claims = append(t.Claims, c)
	}
	if u := claim.Uplink; u != nil && !b.aside && !slices.Contains(t.Addresses(), u.Address) {
		t.Uplinks = append(t.Uplinks, *u)
		for _, f := range claim.Forwarding {
			if !slices.ContainsFunc(t.Forwarding, func(o lock.Forwarding) bool { return o.Index == f.Index }) {
				t.Forwarding = append(t.Forwarding, f)
			}
		}
	}
	for _, h := range claim.HCAs {
		if !slices.ContainsFunc(t.HCAs, func(o node.HCA) bool { return o.ID == h.ID }) {
			t.HCAs = append(t.HCAs, h)
		}
	}
}

// quarantineNoted claims the HCAs of which the journal, which does not say what its lease
// has, notes that they are out.
func (b book) quarantineNoted(t *lock.Table, now time.Time) {
	if b.aside {
		return
	}
	for _, note := range b.Notes {
		s, err := step.Decode(note.Kind, note.Data)
		if err == nil && !note.Struck && s.HCA() != (node.ID{}) {
			b.quarantineUnknown(t, s.HCA(), s.Object(), now)
		}
	}
}

// quarantineUnknown keeps an HCA from everybody that the lease may have, unless another has it.
func (b book) quarantineUnknown(t *lock.Table, id node.ID, name string, now time.Time) {
	if _, held := t.Holder(id); held {
		return
	}
	c := lock.Claim{HCA: id, Name: name, Job: b.job, Run: b.Header.Run, Since: now, Doubt: b.aside}
	c.Quarantined = fmt.Sprintf("the node table was damaged, and the lease of job %d does not say which HCAs it has", b.job)
	t.Claims = append(t.Claims, c)
}

// addNumbers puts into a table the HCAs that other notes than the claim's name, so
// that those that are away keep their numbers.
func (b book) addNumbers(t *lock.Table) {
	for _, note := range b.Notes {
		s, err := step.Decode(note.Kind, note.Data)
		if err != nil || s.Kind() != "access" {
			continue
		}
		if !slices.ContainsFunc(t.HCAs, func(h node.HCA) bool { return h.ID == s.HCA() }) {
			t.HCAs = append(t.HCAs, node.HCA{ID: s.HCA(), Name: s.Object()})
		}
	}
}

// setAsides is where the journals of damaged leases are kept for a person.
func (n *Node) setAsides() string { return filepath.Join(n.State, "damaged") }

// begun tells whether a lease's directory has what only comes after notes.
func (n *Node) begun(id uint32) bool {
	for _, name := range []string{"netns", "dev"} {
		if _, err := os.Lstat(filepath.Join(n.dir(id), name)); err == nil {
			return true
		}
	}
	return false
}
