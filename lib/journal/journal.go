// Package journal keeps a lease's book of undos: what must be known to undo a
// deed is noted before the deed is done, and struck when it is undone.
//
// A journal is a file of lines, each a checksum and a JSON object. It is
// appended to by one write a line, so that a process that is killed leaves
// whole lines and at most one broken tail, whose deed was then never begun.
// There is no fsync: the file lives on /run, which dies with the boot whose
// state it describes, and no kill -9 takes back what was written.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// Version is the format that this program writes and the only one it reads.
const Version = 1

var (
	// ErrDamaged means that a line that was once written whole does not read back.
	ErrDamaged = errors.New("journal is damaged")
	// ErrVersion means that another version of gresnet wrote the journal.
	ErrVersion = errors.New("journal of another version")
)

// Header is a journal's first line: whose book it is.
type Header struct {
	Version int    `json:"version"`
	Job     uint32 `json:"job"`
	Run     string `json:"run"`
	Host    string `json:"host"` // the network namespace that is home, by device and inode

	Since time.Duration `json:"since"` // time from the node's boot to the lease's beginning
}

// Note is one step, as its kind wrote it down.
type Note struct {
	Number int
	Kind   string
	Data   json.RawMessage
	Struck bool
}

// line is what stands in the file after the header: a note or a strike.
type line struct {
	Note   int             `json:"note,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	Strike int             `json:"strike,omitempty"`
}

// Journal is an open journal. Only the holder of the job's lock may have it.
type Journal struct {
	Header Header
	Notes  []Note
	file   *os.File
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

// Open reads a journal to go on with it. A broken tail is cut off. A journal
// that is damaged before its end is returned as far as it can be read,
// together with ErrDamaged: what was read can still be undone.
func Open(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	j := &Journal{file: file}
	whole, err := j.parse(text)
	if errors.Is(err, ErrVersion) {
		file.Close()
		return nil, err
	}
	if whole < len(text) && err == nil {
		if err := file.Truncate(int64(whole)); err != nil {
			file.Close()
			return nil, fmt.Errorf("cut off the journal's broken tail: %w", err)
		}
	}
	return j, err
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

// parse takes in whole lines and tells how many bytes they are.
func (j *Journal) parse(text []byte) (whole int, err error) {
	for n := 0; ; n++ {
		row, _, found := bytes.Cut(text[whole:], []byte{'\n'})
		if !found {
			return whole, nil
		}
		object, err := check(row)
		if err == nil && n == 0 {
			err = j.takeHeader(object)
		} else if err == nil {
			err = j.take(object)
		}
		if err != nil {
			return whole, fmt.Errorf("journal line %d: %w", n+1, err)
		}
		whole += len(row) + 1
	}
}

func (j *Journal) takeHeader(object []byte) error {
	if err := json.Unmarshal(object, &j.Header); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if j.Header.Version != Version {
		return fmt.Errorf("%w: %d, this program reads %d", ErrVersion, j.Header.Version, Version)
	}
	return nil
}

func (j *Journal) take(object []byte) error {
	var l line
	if err := json.Unmarshal(object, &l); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	switch {
	case l.Note == len(j.Notes)+1:
		j.Notes = append(j.Notes, Note{Number: l.Note, Kind: l.Kind, Data: l.Data})
	case l.Note == 0 && l.Strike >= 1 && l.Strike <= len(j.Notes):
		j.Notes[l.Strike-1].Struck = true
	default:
		return fmt.Errorf("%w: note %d or strike %d does not follow", ErrDamaged, l.Note, l.Strike)
	}
	return nil
}

// Note writes a step down. Only after that may the step be done.
func (j *Journal) Note(kind string, step any) error {
	data, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("note %s: %w", kind, err)
	}
	n := Note{Number: len(j.Notes) + 1, Kind: kind, Data: data}
	if err := j.write(line{Note: n.Number, Kind: kind, Data: data}); err != nil {
		return err
	}
	j.Notes = append(j.Notes, n)
	return nil
}

// Strike says that a note's step is undone.
func (j *Journal) Strike(number int) error {
	if err := j.write(line{Strike: number}); err != nil {
		return err
	}
	j.Notes[number-1].Struck = true
	return nil
}

// Close closes the file; the journal stays.
func (j *Journal) Close() error { return j.file.Close() }

func (j *Journal) write(v any) error {
	object, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	start, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if _, err := j.file.Write(seal(object)); err != nil {
		// A part of a line (a full /run) must not stand before the next one.
		return errors.Join(fmt.Errorf("write the journal: %w", err), j.file.Truncate(start))
	}
	return nil
}

// seal makes an object a line: its checksum in eight hex digits, a space, itself.
func seal(object []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n", sum(object), object)
}

// check is the object of a line, if the checksum agrees.
func check(row []byte) ([]byte, error) {
	if len(row) < 10 || row[8] != ' ' {
		return nil, fmt.Errorf("%w: no checksum", ErrDamaged)
	}
	object := row[9:]
	if string(row[:8]) != sum(object) {
		return nil, fmt.Errorf("%w: the checksum does not agree", ErrDamaged)
	}
	return object, nil
}

func sum(object []byte) string {
	// Not Castagnoli's polynomial: its tables cost every start of the program more
	// than all checksums that it will ever make.
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(object))
}
