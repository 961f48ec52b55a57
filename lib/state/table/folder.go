// Package table reads and changes what the node has for all jobs together: which job has which HCA
// and which address, which HCAs no job gets, and which settings interfaces still lack.
//
// All that is in folders below the state directory, and their entries are the state: a link for each
// HCA that a job has, a link or a small file for all else. Nothing is there twice. Who changes an
// entry holds the node lock; each entry is made and replaced whole, and readers take no lock. An
// entry that does not read costs one HCA: no job gets that one, and all else goes on.
package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/state"
)

// Folder is a state directory, with the node lock in it.
type Folder string

// folders are the folders, in the order in which entries are written. What a claim or an address
// needs is there before it. Who could open an HCA's device nodes comes after the claim of a slot, and
// goes before it: whoever finds that without a slot opens the nodes.
var folders = []string{state.HCAs, state.Numbers, state.Hooked, state.Quarantine, state.Uplinks, state.Claims, state.Shared}

// removed is the order in which entries are removed. An HCA that its job's epilog frees is never in
// quarantine without a claim: what that one had would be forgotten.
var removed = []string{state.Shared, state.Quarantine, state.Claims, state.Uplinks, state.Hooked, state.Numbers, state.HCAs}

// Read reads the table. It takes no lock.
func (f Folder) Read() (Table, error) {
	laidOut, err := f.laidOut()
	if err != nil {
		return Table{}, err
	}
	entries, err := f.entries(laidOut)
	if err != nil {
		return Table{}, err
	}
	return decode(entries), nil
}

// entries reads all entries. laidOut says that the folders must be there.
func (f Folder) entries(laidOut bool) (map[string]Entry, error) {
	all := map[string]Entry{}
	for _, folder := range folders {
		some, err := f.list(folder)
		if errors.Is(err, fs.ErrNotExist) && !laidOut {
			continue
		}
		if err != nil {
			err := fmt.Errorf("read what jobs have on the node: %w", err)
			return nil, hint.With(err, "GN570 somebody has removed or changed the folder: reboot the node, which frees everything")
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// listings are the folders that this process has read. A run reads them again and again, and most do
// not change meanwhile.
var listings struct {
	sync.Mutex
	of map[string]listing
}

type listing struct {
	changed time.Time // when an entry was last made, replaced or removed
	entries map[string]Entry
}

// list reads a folder, unless it is as this process has read it.
func (f Folder) list(folder string) (map[string]Entry, error) {
	path, begun := f.path(folder), time.Now()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	listings.Lock()
	defer listings.Unlock()
	if l, read := listings.of[path]; read && l.changed.Equal(info.ModTime()) {
		return l.entries, nil
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	all := map[string]Entry{}
	for _, e := range list {
		if e.Name()[0] == '.' {
			continue // not whole yet
		}
		one, err := read(folder, filepath.Join(path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			one = Entry{Odd: true}
		}
		all[filepath.Join(folder, e.Name())] = one
	}
	if begun.Sub(info.ModTime()) > poll.Settled {
		if listings.of == nil {
			listings.of = map[string]listing{}
		}
		listings.of[path] = listing{info.ModTime(), all}
	}
	return all, nil
}

// read reads an entry of a folder.
func read(folder, path string) (Entry, error) {
	switch folder {
	case state.Claims:
		return ReadOwnedEntry(path)
	case state.Uplinks, state.Numbers:
		return ReadLinkEntry(path)
	}
	return ReadFileEntry(path)
}

// Update changes the table under the node lock. If change fails, the table stays as it was.
func (f Folder) Update(ctx context.Context, change func(*Table) error) error {
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

	folder Folder
	lock   *state.Lock
	before map[string]Entry
}

// Begin takes the node lock and reads the table. Close releases the lock. Without Commit the
// table stays as it was.
func (f Folder) Begin(ctx context.Context) (*Change, error) {
	held, err := state.LockFile(ctx, state.Dir(f).NodeLock())
	if err != nil {
		return nil, err
	}
	c := &Change{folder: f, lock: held}
	if err := c.begin(); err != nil {
		held.Close()
		return nil, err
	}
	return c, nil
}

func (c *Change) begin() error {
	laidOut, err := c.folder.laidOut()
	if err != nil {
		return err
	}
	if c.before, err = c.folder.entries(laidOut); err != nil {
		return err
	}
	if !laidOut {
		if err := c.layOut(); err != nil {
			return err
		}
	}
	c.Table = decode(c.before)
	return nil
}

// Commit writes what the caller changed, and fixes the list of the HCAs that jobs have. A kill leaves
// some of the changes: whoever undoes the lease by its journal undoes these.
func (c *Change) Commit() error {
	c.Unlisted = c.folder.writeInUse(&c.Table)
	return c.write(encode(c.Table, c.before))
}

// write has the folders agree with the entries.
func (c *Change) write(after map[string]Entry) error {
	for _, folder := range folders {
		for _, path := range in(after, folder) {
			if e := after[path]; e != c.before[path] {
				if err := c.folder.put(path, e, c.before[path].Odd); err != nil {
					return fmt.Errorf("write what jobs have on the node: %w", err)
				}
				c.before[path] = e
			}
		}
	}
	for _, folder := range removed {
		for _, path := range in(c.before, folder) {
			if _, stays := after[path]; !stays {
				if err := os.RemoveAll(c.folder.path(path)); err != nil {
					return fmt.Errorf("write what jobs have on the node: %w", err)
				}
				delete(c.before, path)
			}
		}
	}
	return nil
}

// in returns the paths of a folder's entries, in their order.
func in(entries map[string]Entry, folder string) (paths []string) {
	for path := range entries {
		if of, _, _ := strings.Cut(path, "/"); of == folder {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// put makes or replaces an entry. odd says that something else has its name. The link of a claim
// belongs to the job's user, so that a list of the folder says whose it is.
func (f Folder) put(path string, e Entry, odd bool) error {
	if odd {
		if err := os.RemoveAll(f.path(path)); err != nil {
			return err
		}
	}
	return e.Write(f.path(path))
}

// Close releases the node lock.
func (c *Change) Close() { c.lock.Close() }

func (f Folder) path(of string) string { return filepath.Join(string(f), of) }
