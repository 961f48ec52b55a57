// Package journal keeps a lease's undo log. Before a step is done, an entry
// says how to undo it; after its undo the entry is marked undone.
//
// A journal is a file of lines, each a checksum and a JSON object. It is
// appended to by one write a line, so that a process that is killed leaves
// whole lines and at most one broken tail, whose step was then never begun.
// There is no fsync: the file lives on /run, which dies with the boot whose
// state it describes, and no kill -9 takes back what was written.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gresnet/lib/base/hint"
)

// Version is the format that this program writes and reads.
const Version = 1

// ErrVersion means that another version of gresnet wrote the journal.
var ErrVersion = errors.New("journal of another version")

// Header is a journal's first line: whose undo log it is.
type Header struct {
	Version int    `json:"version"`
	Job     uint32 `json:"job"`
	Run     string `json:"run"`
	Host    string `json:"host"` // the root network namespace, by device and inode

	Since time.Duration `json:"since"`          // time from the node's boot to the lease's beginning
	Undo  time.Duration `json:"undo,omitempty"` // how long an epilog may take
}

// Entry is one step, as its kind wrote it down.
type Entry struct {
	Number int
	Kind   string
	Data   json.RawMessage
	Undone bool
	end    int64 // where its line ends in the file
}

// Gap is a place where entries were once written and do not read back.
type Gap struct {
	After int    // the number of the entry before it, 0 if it is the first's place
	Why   string // for people
}

// line is what stands in the file after the header: an entry or the mark of one that is undone.
type line struct {
	Entry  int             `json:"entry,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	Undone int             `json:"undone,omitempty"`
}

// Journal is an open journal. Only the holder of the job's lock may have it.
type Journal struct {
	Header  Header  // zero if its line is not there or does not read
	Entries []Entry // those that read, by number
	// Gaps are where entries are missing. What damage there is besides (a mark
	// that does not read, a line that stands there twice) loses nothing.
	Gaps []Gap
	file *os.File
	// unended says that the file's last line is whole but for its newline.
	unended bool
}

// Create starts a journal that did not exist.
func Create(path string, h Header) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	h.Version = Version
	j := &Journal{Header: h, file: file}
	if err := j.write(h); err != nil {
		file.Close()
		return nil, err
	}
	return j, nil
}

// Open reads a journal to go on with it. A broken tail, whose step was never
// begun, is cut off. All that reads is read, whatever stands before it.
func Open(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j := &Journal{file: file}
	if err := j.read(); err != nil {
		file.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) read() error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	whole, err := j.parse(text)
	if err != nil || whole == len(text) {
		return err
	}
	if err := j.file.Truncate(int64(whole)); err != nil {
		return fmt.Errorf("cut off the journal's broken tail: %w", err)
	}
	return nil
}

// Read reads a journal to look at it, for those who do not have the job's lock.
func Read(path string) (*Journal, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	j := &Journal{}
	_, err = j.parse(text)
	return j, err
}

// Add writes a step down. Only after that may the step be done.
func (j *Journal) Add(kind string, step any) error {
	data, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("write %s down: %w", kind, err)
	}
	n := Entry{Number: j.last() + 1, Kind: kind, Data: data}
	object, err := json.Marshal(line{Entry: n.Number, Kind: kind, Data: data})
	if err != nil {
		return fmt.Errorf("write %s down: %w", kind, err)
	}
	if n.end, err = j.append(object); err != nil {
		return err
	}
	j.Entries = append(j.Entries, n)
	return nil
}

// MarkUndone says that an entry's step is undone.
func (j *Journal) MarkUndone(number int) error {
	if err := j.write(line{Undone: number}); err != nil {
		return err
	}
	for i := range j.Entries {
		if j.Entries[i].Number == number {
			j.Entries[i].Undone = true
		}
	}
	return nil
}

// Shorten forgets the entries after one, all of them marked undone, which gives a
// full /run its space again.
func (j *Journal) Shorten(number int) error {
	for i, n := range j.Entries {
		if n.Number == number {
			if err := j.file.Truncate(n.end); err != nil {
				return fmt.Errorf("shorten the journal: %w", err)
			}
			j.Entries, j.unended = j.Entries[:i+1], false
		}
	}
	return nil
}

// last returns the highest number of an entry.
func (j *Journal) last() int {
	if len(j.Entries) == 0 {
		return 0
	}
	return j.Entries[len(j.Entries)-1].Number
}

// Close closes the file; the journal stays.
func (j *Journal) Close() error { return j.file.Close() }

// write appends a line.
func (j *Journal) write(v any) error {
	object, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	_, err = j.append(object)
	return err
}

// append appends a line of an object, and tells where it ends.
func (j *Journal) append(object []byte) (end int64, err error) {
	start, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("write the journal: %w", err)
	}
	text := seal(object)
	if j.unended {
		text = append([]byte{'\n'}, text...)
	}
	if _, err := j.file.Write(text); err != nil {
		// A part of a line (a full /run) must not stand before the next one.
		return 0, hint.Join(fmt.Errorf("write the journal: %w", err), j.file.Truncate(start))
	}
	j.unended = false
	return start + int64(len(text)), nil
}
