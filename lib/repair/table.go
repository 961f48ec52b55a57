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

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/recovery"
	"gresnet/lib/table"
)

// rebuildTable makes the node table anew from the journals if it is damaged, or gone
// while there are leases. It is done under the node lock, under which the
// claims are noted, too: so each claim is in the table or in a journal.
func (n *Host) rebuildTable(ctx context.Context) error {
	kept, why, err := n.Table().Rebuild(ctx, n.Now(), n.rebuild)
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
	n.Log(event.Event{Kind: event.TableMended, Warning: text})
	return nil
}

// saysOwed tells whether a damaged table has what is owed, which nobody else remembers.
func saysOwed(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && bytes.Contains(text, []byte(`"owed": [`))
}

// rebuild fills a table with what the open leases hold.
func (n *Host) rebuild(t *table.Table) error {
	books, err := n.books()
	if err != nil || len(books) == 0 {
		return err
	}
	return recovery.Rebuild(t, books, n.AddHCAs, n.Now)
}

// books are the journals of all leases, and then of those that were set aside:
// what those had may not be as it was. Young ones come first: of two that claim an
// HCA it is the younger one's. The older one has freed it, or was killed before it had it.
func (n *Host) books() (books []recovery.Book, err error) {
	for _, where := range []struct {
		dir   string
		aside bool
	}{{n.Jobs(), false}, {n.setAsides(), true}} {
		entries, err := os.ReadDir(where.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, n.StateFault(err)
		}
		var found []recovery.Book
		for _, e := range entries {
			name, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), "job-"), "-")
			id, err := strconv.ParseUint(name, 10, 32)
			if err != nil {
				continue // not ours
			}
			b := recovery.Book{Job: uint32(id), Aside: where.aside}
			path := filepath.Join(where.dir, e.Name())
			if !b.Aside {
				path = host.JournalIn(path)
			}
			if b.Journal, err = n.readBook(path, b); err != nil {
				return nil, err
			}
			found = append(found, b)
		}
		slices.SortStableFunc(found, func(a, b recovery.Book) int { return cmp.Compare(b.Header.Since, a.Header.Since) })
		books = append(books, found...)
	}
	return books, nil
}

// readBook reads a journal; what does not read, though it must have been
// written, is one gap.
func (n *Host) readBook(path string, b recovery.Book) (*journal.Journal, error) {
	j, err := journal.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j = new(journal.Journal)
	case errors.Is(err, journal.ErrVersion):
		return &journal.Journal{Gaps: []journal.Gap{{Why: err.Error()}}}, nil
	case err != nil:
		return nil, err
	}
	if len(j.Notes) == 0 && !b.Aside && n.begun(b.Job) {
		j.Gaps = append(j.Gaps, journal.Gap{Why: "it is empty"})
	}
	return j, nil
}

// setAsides is where the journals of damaged leases are kept for a person.
func (n *Host) setAsides() string { return filepath.Join(n.State, "damaged") }

// begun tells whether a lease's directory has what only comes after notes.
func (n *Host) begun(id uint32) bool {
	for _, name := range []string{"netns", "dev"} {
		if _, err := os.Lstat(filepath.Join(n.Dir(id), name)); err == nil {
			return true
		}
	}
	return false
}
