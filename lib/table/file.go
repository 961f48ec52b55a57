// Package table reads and writes the node table, node.json. It says which job claims which HCA,
// which jobs have which addresses, and which settings interfaces still lack.
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
	"time"

	"gresnet/lib/hint"
	"gresnet/lib/lock"
	"gresnet/lib/node"
)

// File is the node table of a directory, with the node lock beside it.
type File struct {
	Dir  string
	last *last // nil: each read parses
}

// NewFile returns a File that parses of a table only what changed since the last Read.
func NewFile(dir string) File { return File{Dir: dir, last: new(last)} }

// Read reads the table. It takes no lock, because writers replace the whole file. If there is no
// table yet, Read returns an empty one.
func (f File) Read() (Table, error) {
	_, t, err := f.readOrNone()
	return t, err
}

// readOrNone returns the table and its text. If there is no table yet, the text is nil.
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

// Update changes the table under the node lock. If change fails, the table stays as it was.
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

// Change is the table under the node lock, for a caller that does more before it writes the table.
type Change struct {
	Table Table
	// Unlisted is why Commit could not list the HCAs that jobs have. No job depends on the list.
	Unlisted error

	file   File
	lock   *lock.File
	before []byte
}

// Begin takes the node lock and reads the table. Close releases the lock. Without Commit the
// table stays as it was.
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

// Commit writes the table if the caller changed it, and mends the list of the HCAs that jobs have.
func (c *Change) Commit() error {
	c.Unlisted = c.file.lend(&c.Table)
	after := format(c.Table)
	if bytes.Equal(c.before, after) {
		return nil
	}
	return c.file.write(after)
}

// Close releases the node lock.
func (c *Change) Close() { c.lock.Close() }

// Rebuild makes a damaged or missing table anew: build adds what other files say. It returns the
// path to which it moved the damaged file, and why it rebuilt the table. If there was no table and
// build adds no claims, Rebuild writes none, because nothing was lost.
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
	_ = f.lend(&t) // whoever changes the table next tells why not
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

// write replaces the table by rename, so that neither a reader nor a crash sees half of one.
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

// parse reads a table that format wrote. It accepts no change of any byte.
func parse(text []byte) (Table, error) {
	if err := whole(text); err != nil {
		return Table{}, err
	}
	t, err := decode(text)
	if err != nil {
		return Table{}, err
	}
	return t, t.check()
}

// whole returns an error if a text is not as format wrote it, or of another version.
func whole(text []byte) error {
	if !sealed(text) {
		return fmt.Errorf("%w: its checksum does not agree", ErrDamaged)
	}
	// A table of this version begins so. Another version's may be sound.
	if !bytes.HasPrefix(text, fmt.Appendf(nil, "{\n  \"version\": %d,\n", Version)) {
		return otherVersion(text)
	}
	return nil
}

func decode(text []byte) (t Table, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return Table{}, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	t.Sum = ""
	t.Claims = listed(t.Claims)
	return t, nil
}

// otherVersion returns why parse refuses a text that does not begin with this version.
func otherVersion(text []byte) error {
	var v struct{ Version int }
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if v.Version == Version {
		return fmt.Errorf("%w: it does not begin with its version", ErrDamaged)
	}
	err := fmt.Errorf("%w: %d, this program reads %d", ErrVersion, v.Version, Version)
	return hint.With(err, "GN256 run the epilogs of its jobs with the version of gresnet that wrote it, or reboot the node")
}

// check returns an error if the table contradicts itself.
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

// listed returns a list that is not nil, so that readers of the file find an empty list instead of
// null.
func listed(claims []Claim) []Claim { return append([]Claim{}, claims...) }

// The file contains its own checksum, so that it remains one JSON object. The checksum is that of
// the text with zeros in the checksum's place.
const (
	sumKey = `"sum": "`
	blank  = "00000000"
)

// seal writes the checksum over the first blank of the text.
func seal(text []byte) []byte {
	at := bytes.Index(text, []byte(sumKey)) + len(sumKey)
	copy(text[at:], sum(text))
	return text
}

// sealed tells whether a text has the checksum that seal would write.
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
