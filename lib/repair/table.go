package repair

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
	"gresnet/lib/state"
	"gresnet/lib/table"
)

// Table makes the node table anew from the journals if it is damaged, or gone while there are
// leases. It does so under the node lock, under which claims are noted, too: so each claim is in
// the table or in a journal.
func Table(ctx context.Context, h *host.Host) error {
	kept, why, err := h.Table().Rebuild(ctx, h.Now(), func(t *table.Table) error { return rebuild(h, t) })
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
	h.Log(event.Event{Kind: event.TableMended, Warning: text})
	return nil
}

// saysOwed tells whether a damaged table has deferred settings, which nobody else remembers.
func saysOwed(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && bytes.Contains(text, []byte(`"owed": [`))
}

// rebuild fills a table with what the leases hold.
func rebuild(h *host.Host, t *table.Table) error {
	books, err := books(h)
	if err != nil || len(books) == 0 {
		return err
	}
	return recovery.Rebuild(t, books, h.AddHCAs, h.Now)
}

// books reads the journals of all leases, and then of those that were set aside, whose HCAs may not
// be as they were. Young ones come first: if two claim an HCA at one time, the younger one has it.
// Else the later claim has it: the other one was freed before.
func books(h *host.Host) (books []recovery.Book, err error) {
	for _, where := range []struct {
		dir   string
		aside bool
	}{{h.State.Jobs(), false}, {h.State.Lost(), true}, {h.State.Damaged(), true}} {
		entries, err := os.ReadDir(where.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, h.State.Fault(err)
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
			if where.dir != h.State.Damaged() {
				path = state.Lease(path).Journal()
			}
			if b.Journal, err = readBook(h, path, b); err != nil {
				return nil, err
			}
			found = append(found, b)
		}
		slices.SortStableFunc(found, func(a, b recovery.Book) int { return cmp.Compare(b.Header.Since, a.Header.Since) })
		books = append(books, found...)
	}
	return books, nil
}

// readBook reads a journal. One that does not read, although somebody must have written it, is one
// gap.
func readBook(h *host.Host, path string, b recovery.Book) (*journal.Journal, error) {
	j, err := journal.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j = new(journal.Journal)
	case errors.Is(err, journal.ErrVersion):
		return &journal.Journal{Gaps: []journal.Gap{{Why: err.Error()}}}, nil
	case err != nil:
		return nil, err
	}
	if len(j.Notes) == 0 && !b.Aside && h.State.Lease(b.Job).Begun() {
		j.Gaps = append(j.Gaps, journal.Gap{Why: "it is empty"})
	}
	return j, nil
}
