package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gresnet/lib/base/hint"
)

// document is a TOML text that is being decoded, and what was found wrong with it. The library parses the text.
// document decodes its result, because the library takes keys in any case, and knows no line for a key that it
// does not take.
type document struct {
	name     string
	text     string
	lines    map[string]int // line of each key, see linesOf; nil: not read yet
	problems []lineError
	seen     map[string]string   // place of what may be said once, see Table.Once
	known    map[string][]string // keys of each table, see Table.Allow
}

// parseTOML reads the syntax. name is the file's, for errors.
func parseTOML(data []byte, name string) (*document, table, error) {
	d := &document{name: name, text: string(data), seen: map[string]string{}, known: map[string][]string{}}
	values := map[string]any{}
	data = withoutComments(data)
	if err := toml.Unmarshal(data, &values); err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			// Its own count of lines goes wrong where a CRLF is; its offset does not.
			before := data[:min(max(bad.Position.Start, 0), len(data))]
			return nil, table{}, lineError{file: name, line: 1 + bytes.Count(before, []byte("\n")), text: bad.Message}
		}
		return nil, table{}, fmt.Errorf("%s: %w", name, err)
	}
	return d, table{doc: d, values: values}, nil
}

// withoutComments empties the lines that have nothing but a comment: the parser takes as long for each of its letters as
// for others, and most of a site's file are comments. What else than ASCII is in one the parser judges. In a string of
// several lines a # begins no comment.
func withoutComments(data []byte) []byte {
	if bytes.Contains(data, []byte(`"""`)) || bytes.Contains(data, []byte("'''")) {
		return data
	}
	kept := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		text, end := bytes.CutSuffix(line, []byte("\n"))
		if end && isComment(bytes.TrimSuffix(text, []byte("\r"))) {
			line = []byte("\n")
		}
		kept = append(kept, line...)
	}
	return kept
}

func isComment(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && line[0] == '#' && !bytes.ContainsFunc(line, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') })
}

// mostFaults bounds the faults that a person is told of at once.
const mostFaults = 8

// Err returns the faults in the order in which they stand in the file, on one line. Of a line it has the first, since
// others of it may follow from that one.
func (d *document) Err() error {
	slices.SortStableFunc(d.problems, func(a, b lineError) int {
		return cmp.Or(a.line-b.line, strings.Compare(a.text, b.text))
	})
	var all []error
	first := slices.CompactFunc(slices.Clone(d.problems), func(a, b lineError) bool { return a.line == b.line })
	for _, e := range first[:min(len(first), mostFaults)] {
		if others := d.others(e.key); len(others) > 0 {
			e.hint = meant(others...)
		}
		all = append(all, e)
	}
	if more := len(first) - len(all); more > 0 {
		all = append(all, fmt.Errorf("%d more lines of it are wrong", more))
	}
	return hint.Join(all...)
}

// others returns the names of a key in the tables that have it.
func (d *document) others(key string) (all []string) {
	for table, keys := range d.known {
		if key != "" && slices.Contains(keys, key) {
			all = append(all, join(table, key))
		}
	}
	slices.Sort(all)
	return all
}

// line returns the line of a key, or that of the table around it if nothing nearer is known.
func (d *document) line(place string) int {
	if d.lines == nil {
		d.lines = linesOf(d.text)
	}
	for place != "" {
		if n, known := d.lines[place]; known {
			return n
		}
		place = place[:max(strings.LastIndexAny(place, ".["), 0)]
	}
	return 1
}

// lineError is a fault and its line.
type lineError struct {
	file       string
	line       int
	text, hint string
	key        string // one that its table does not have, and another may
}

func (e lineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.text) }

// Hint returns what a person can do about it.
func (e lineError) Hint() string {
	return cmp.Or(e.hint, "GN008 correct line "+fmt.Sprint(e.line)+" of "+e.file)
}

// fault is what is wrong with a value, before anybody says where it stands.
func fault(text, do string) error { return hint.With(errors.New(text), do) }
