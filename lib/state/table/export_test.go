package table

import (
	"path/filepath"

	"gresnet/lib/state"
)

// The tests meet the table's entries without a directory.
var (
	WriteInUse = Folder.writeInUse
	ErrVersion = errVersion
)

// WithEntry returns a table of which one entry has some text, or a link of that target, and then the
// table that is read when that one is written.
func WithEntry(t Table, path, text string) (after, again Table) {
	entries := encode(t, nil)
	e := Entry{Text: text}
	switch filepath.Dir(path) {
	case state.Claims, state.Uplinks, state.Numbers:
		e = Entry{Target: text}
	}
	entries[path] = e
	after = decode(entries)
	return after, decode(encode(after, entries))
}

// Written and Removed are the folders in the order in which their entries are written and removed.
var Written, Removed = folders, removed
