package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gresnet/lib/node"
)

// Version is the format of node.json that this program writes and reads.
const Version = 1

// ErrVersion means that another version of gresnet wrote node.json.
var ErrVersion = errors.New("node table of another version")

// Table is what the node lock file guards.
type Table struct {
	Version int `json:"version"`
	// HCAs are the node's, in the order in which they are numbered. The order
	// is kept for the boot: an HCA that is away must not shift the others.
	HCAs   []node.HCA `json:"hcas"`
	Claims []Claim    `json:"claims"`
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
}

// Holder is who has an HCA, if anybody has.
func (t *Table) Holder(id node.ID) (Claim, bool) {
	i := slices.IndexFunc(t.Claims, func(c Claim) bool { return c.HCA == id })
	if i < 0 {
		return Claim{}, false
	}
	return t.Claims[i], true
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

// Node is the node lock file and its table, in a directory.
type Node struct {
	Dir string
}

// Read reads the table without a lock: it is replaced whole. No table yet is an empty one.
func (n Node) Read() (Table, error) {
	text, err := os.ReadFile(n.table())
	if errors.Is(err, fs.ErrNotExist) {
		return Table{Version: Version}, nil
	}
	if err != nil {
		return Table{}, fmt.Errorf("read the node table: %w", err)
	}
	return parse(text)
}

func parse(text []byte) (Table, error) {
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		return Table{}, fmt.Errorf("read the node table: %w", err)
	}
	if t.Version != Version {
		return Table{}, fmt.Errorf("%w: %d, this program reads %d", ErrVersion, t.Version, Version)
	}
	return t, nil
}

// Update changes the table under the node lock. An error of change leaves it as it was.
func (n Node) Update(ctx context.Context, change func(*Table) error) error {
	lock, err := take(ctx, filepath.Join(n.Dir, "node.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	t, err := n.Read()
	if err != nil {
		return err
	}
	before := format(t)
	if err := change(&t); err != nil {
		return err
	}
	after := format(t)
	if bytes.Equal(before, after) {
		return nil
	}
	return n.write(after)
}

// write replaces the table by rename, so that a reader or a crash never meets half of one.
func (n Node) write(text []byte) error {
	next := n.table() + ".new"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return fmt.Errorf("write the node table: %w", errors.Join(err, os.Remove(next)))
	}
	if err := os.Rename(next, n.table()); err != nil {
		return fmt.Errorf("write the node table: %w", err)
	}
	return nil
}

func (n Node) table() string { return filepath.Join(n.Dir, "node.json") }

func format(t Table) []byte {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic(err) // a Table has nothing that JSON cannot say
	}
	return append(text, '\n')
}
