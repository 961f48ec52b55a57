package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// parser goes through a journal line by line. A line that does not read costs
// itself alone: each has its own checksum, and none has a newline inside.
type parser struct {
	*Journal
	undone map[int]bool
	// unread is how many lines do not read after the last entry and before any
	// undone mark, and why the first does not: once a rollback has begun no more
	// entries are written.
	unread int
	why    string
}

// parse takes in a journal's text and tells how many bytes of it to keep.
func (j *Journal) parse(text []byte) (whole int, err error) {
	p := parser{Journal: j, undone: map[int]bool{}}
	number := 0
	for ; ; number++ {
		row, _, found := bytes.Cut(text[whole:], []byte{'\n'})
		if !found {
			break
		}
		if err := p.line(number+1, row, int64(whole+len(row)+1)); err != nil {
			return whole, err
		}
		whole += len(row) + 1
	}
	tail := text[whole:]
	for _, row := range [][]byte{tail, tail[:max(len(tail)-1, 0)]} {
		// Whole, and then killed before the newline, or the newline is damaged.
		if _, err := check(row); err == nil {
			if err := p.line(number+1, row, int64(whole+len(row))); err != nil {
				return whole, err
			}
			whole, j.unended = whole+len(row), true
			break
		}
	}
	p.finish()
	return whole, nil
}

// line takes in one line; the only error is ErrVersion.
func (p *parser) line(number int, row []byte, end int64) error {
	object, err := check(row)
	if err == nil {
		err = p.take(object, end)
	}
	if errors.Is(err, ErrVersion) {
		return err
	}
	if err != nil && len(p.undone) == 0 {
		if p.unread++; p.unread == 1 {
			p.why = fmt.Sprintf("line %d: %v", number, err)
		}
	}
	return nil
}

func (p *parser) take(object []byte, end int64) error {
	var l struct {
		Header
		line
	}
	if err := json.Unmarshal(object, &l); err != nil {
		return err
	}
	switch {
	case l.Version < 0 || l.Version > Version:
		return fmt.Errorf("%w: %d, this program reads up to %d", ErrVersion, l.Version, Version)
	case l.Version != 0:
		if p.Header != (Header{}) && p.Header != l.Header {
			return errors.New("a second first line")
		}
		p.Header = l.Header
	case l.line.Entry > 0:
		return p.entry(Entry{Number: l.line.Entry, Kind: l.Kind, Data: l.Data, end: end})
	case l.Undone > 0:
		p.undone[l.Undone] = true
	default:
		return errors.New("neither an entry nor a mark")
	}
	return nil
}

func (p *parser) entry(n Entry) error {
	i, there := slices.BinarySearchFunc(p.Entries, n.Number, func(n Entry, number int) int { return n.Number - number })
	if there {
		if p.Entries[i].Kind != n.Kind || !bytes.Equal(p.Entries[i].Data, n.Data) {
			p.Gaps = append(p.Gaps, Gap{After: n.Number, Why: fmt.Sprintf("entry %d stands there twice, and differs", n.Number)})
		}
		return nil
	}
	p.Entries = slices.Insert(p.Entries, i, n)
	p.unread = 0
	return nil
}

// finish marks the undone entries and finds the gaps.
func (p *parser) finish() {
	before := 0
	for i := range p.Entries {
		n := &p.Entries[i]
		n.Undone = p.undone[n.Number]
		if p.lacks(before+1, n.Number) {
			p.Gaps = append(p.Gaps, Gap{After: before, Why: fmt.Sprintf("entries are missing between %d and %d", before, n.Number)})
		}
		before = n.Number
	}
	if p.lacks(before+1, before+1+p.unread) {
		p.Gaps = append(p.Gaps, Gap{After: before, Why: p.why})
	}
}

// lacks tells whether one of the entries from a number up to another, none of
// which reads, is not marked undone either.
func (p *parser) lacks(from, to int) bool {
	for number := from; number < to; number++ {
		if !p.undone[number] {
			return true
		}
	}
	return false
}

// seal makes an object a line: its checksum in eight hex digits, a space, itself.
func seal(object []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n", sum(object), object)
}

// check returns the object of a line, if the checksum agrees.
func check(row []byte) ([]byte, error) {
	if len(row) < 10 || row[8] != ' ' {
		return nil, errors.New("it has no checksum")
	}
	object := row[9:]
	if string(row[:8]) != sum(object) {
		return nil, errors.New("its checksum does not agree")
	}
	return object, nil
}

func sum(object []byte) string {
	// Not Castagnoli's polynomial: its tables cost every start of the program more
	// than all checksums that it will ever make.
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(object))
}
