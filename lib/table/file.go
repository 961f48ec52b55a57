// Package table has the node table: which HCA is in which job's lease, which addresses jobs
// have, and what interfaces are still to have.
package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gresnet/lib/hint"
	"gresnet/lib/lock"
	"gresnet/lib/node"
)

// File is the node lock file and its table, in a directory.
type File struct {
	Dir  string
	last *last // nil: each read parses
}

// NewFile is the node lock file of a directory, for one who reads its table more than once.
func NewFile(dir string) File { return File{Dir: dir, last: new(last)} }

// last is the table as it was last read: the text of many HCAs takes longer to parse
// than to read and compare.
type last struct {
	mutex sync.Mutex
	text  []byte
	table Table
}

func (l *last) parse(text []byte) (Table, error) {
	if l == nil {
		return parse(text)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.text == nil || !bytes.Equal(text, l.text) {
		t, err := parse(text)
		if err != nil {
			return Table{}, err
		}
		l.text, l.table = text, t
	}
	return l.table.clone(), nil
}

// Read reads the table without a lock: it is replaced whole. No table yet is an empty one.
func (f File) Read() (Table, error) {
	_, t, err := f.readOrNone()
	return t, err
}

// readOrNone is Read with the text of the table; no table yet has none.
func (f File) readOrNone() (text []byte, t Table, err error) {
	text, t, err = f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Table{Version: Version}, nil
	}
	return text, t, err
}

func (f File) read() (text []byte, t Table, err error) {
	if text, err = os.ReadFile(f.table()); err != nil {
		return nil, Table{}, fmt.Errorf("read the node table: %w", err)
	}
	if t, err = f.last.parse(text); err != nil {
		return nil, Table{}, fmt.Errorf("read %s: %w", f.table(), err)
	}
	return text, t, nil
}

// Update changes the table under the node lock. An error of change leaves it as it was.
func (f File) Update(ctx context.Context, change func(*Table) error) error {
	c, err := f.Begin(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := change(&c.Table); err != nil {
		return err
	}
	return c.Commit()
}

// Change is the table under the node lock, for one who has more to do before it is written.
type Change struct {
	Table Table

	file   File
	lock   *lock.File
	before []byte
}

// Begin takes the node lock and reads the table. Close lets go of the lock; without a
// Commit the table stays as it was.
func (f File) Begin(ctx context.Context) (*Change, error) {
	held, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	before, t, err := f.readOrNone()
	if err != nil {
		held.Close()
		return nil, err
	}
	if before == nil {
		before = format(t)
	}
	return &Change{Table: t, file: f, lock: held, before: before}, nil
}

// Commit writes the table, if it was changed.
func (c *Change) Commit() error {
	after := format(c.Table)
	if bytes.Equal(c.before, after) {
		return nil
	}
	return c.file.write(after)
}

// Close lets go of the node lock.
func (c *Change) Close() { c.lock.Close() }

// Rebuild makes the table anew if it is damaged or is not there: build puts in
// what is known from elsewhere. A damaged file is kept beside the new one as
// kept, for the reason why. A table without claims is not written if there was
// none: nothing was lost.
func (f File) Rebuild(ctx context.Context, now time.Time, build func(*Table) error) (kept string, why, err error) {
	if _, _, err := f.read(); err == nil {
		return "", nil, nil // without waiting for anybody
	}
	held, err := f.lock(ctx)
	if err != nil {
		return "", nil, err
	}
	defer held.Close()
	_, _, why = f.read()
	missing := errors.Is(why, fs.ErrNotExist)
	switch {
	case why == nil:
		return "", nil, nil
	case !missing && !errors.Is(why, ErrDamaged):
		return "", nil, why
	}
	t := Table{Version: Version}
	if err := build(&t); err != nil {
		return "", why, fmt.Errorf("make the node table anew: %w", err)
	}
	if missing {
		if len(t.Claims) == 0 {
			return "", nil, nil
		}
		return "", why, f.write(format(t))
	}
	kept = f.table() + ".damaged-" + now.UTC().Format("20060102T150405")
	if err := os.Rename(f.table(), kept); err != nil {
		return "", why, fmt.Errorf("keep the damaged node table: %w", err)
	}
	return kept, why, f.write(format(t))
}

func (f File) lock(ctx context.Context) (*lock.File, error) {
	return lock.At(ctx, filepath.Join(f.Dir, "node.lock"))
}

// write replaces the table by rename, so that a reader or a crash never meets half of one.
func (f File) write(text []byte) error {
	next := f.table() + ".new"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return fmt.Errorf("write the node table: %w", hint.Join(err, os.Remove(next)))
	}
	if err := os.Rename(next, f.table()); err != nil {
		return fmt.Errorf("write the node table: %w", err)
	}
	return nil
}

func (f File) table() string { return filepath.Join(f.Dir, "node.json") }

// parse reads a table that is what format made of it, to the byte.
func parse(text []byte) (Table, error) {
	if !sealed(text) {
		return Table{}, fmt.Errorf("%w: its checksum does not agree", ErrDamaged)
	}
	// What is of this version begins so; what does not may be read by another program.
	if !bytes.HasPrefix(text, fmt.Appendf(nil, "{\n  \"version\": %d,\n", Version)) {
		return Table{}, otherVersion(text)
	}
	var t Table
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return Table{}, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	t.Sum = ""
	t.Claims = listed(t.Claims)
	return t, t.check()
}

// otherVersion is what is wrong with a text that is not of this version.
func otherVersion(text []byte) error {
	var v struct{ Version int }
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if v.Version == Version {
		return fmt.Errorf("%w: it does not begin with its version", ErrDamaged)
	}
	err := fmt.Errorf("%w: %d, this program reads %d", ErrVersion, v.Version, Version)
	return hint.With(err, "let the version of gresnet that wrote it end its jobs, or reboot the node")
}

// check is an error if the table contradicts itself.
func (t *Table) check() error {
	known, claimed := map[node.ID]bool{}, map[node.ID]bool{}
	for _, h := range t.HCAs {
		if known[h.ID] {
			return fmt.Errorf("%w: it has %s twice", ErrDamaged, h.ID)
		}
		known[h.ID] = true
	}
	for _, c := range t.Claims {
		if claimed[c.HCA] {
			return fmt.Errorf("%w: %s is claimed twice", ErrDamaged, c.HCA)
		}
		claimed[c.HCA] = true
	}
	taken := map[netip.Addr]bool{}
	for _, u := range t.Uplinks {
		if taken[u.Address] {
			return fmt.Errorf("%w: two jobs have the address %s", ErrDamaged, u.Address)
		}
		taken[u.Address] = true
	}
	return nil
}

func format(t Table) []byte {
	t.Sum = blank
	t.Claims = listed(t.Claims)
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic(err) // a Table has nothing that JSON cannot say
	}
	return seal(append(text, '\n'))
}

// listed has no claims be an empty list, which whoever reads the file can go through.
func listed(claims []Claim) []Claim { return append([]Claim{}, claims...) }

// The file's checksum stands in the file, so that it can be read and looked at
// as the one JSON object that it is: it is the sum of the text with zeros in its place.
const (
	sumKey = `"sum": "`
	blank  = "00000000"
)

// seal puts the checksum where its blank is, the first in the text.
func seal(text []byte) []byte {
	at := bytes.Index(text, []byte(sumKey)) + len(sumKey)
	copy(text[at:], sum(text))
	return text
}

// sealed tells whether a text is as seal left it.
func sealed(text []byte) bool {
	at := bytes.Index(text, []byte(sumKey)) + len(sumKey)
	if at < len(sumKey) || at+len(blank) > len(text) {
		return false
	}
	blanked := bytes.Clone(text)
	copy(blanked[at:], blank)
	return string(text[at:at+len(blank)]) == sum(blanked)
}

func sum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }
