package document

import (
	"fmt"
	"strings"
)

// linesOf tells on which line each key and table of a TOML text stands:
// "slurm.gres", "hca[1].index". Keys inside inline tables are not among them.
// It is a scan and no parser: the text has been parsed, and is valid.
func linesOf(text string) map[string]int {
	s := &scanner{text: text, line: 1}
	lines := map[string]int{}
	note := func(place string, line int) {
		if _, known := lines[place]; !known {
			lines[place] = line
		}
	}
	entries := map[string]int{} // of each array of tables
	table := ""
	for s.space(); !s.end(); s.space() {
		line := s.line
		switch {
		case s.skip("[["):
			place := s.place("", entries)
			table = fmt.Sprintf("%s[%d]", place, entries[place])
			entries[place]++
			s.skip("]]")
			note(table, line)
		case s.skip("["):
			table = s.place("", entries)
			s.skip("]")
			note(table, line)
		default:
			place := s.place(table, entries)
			s.skip("=")
			s.value()
			note(place, line)
		}
	}
	return lines
}

// scanner walks over a TOML text.
type scanner struct {
	text string
	pos  int
	line int
}

func (s *scanner) end() bool { return s.pos >= len(s.text) }

// next returns the next byte and steps over it.
func (s *scanner) next() byte {
	c := s.text[s.pos]
	s.pos++
	if c == '\n' {
		s.line++
	}
	return c
}

// skip steps over a word, if it comes next.
func (s *scanner) skip(word string) bool {
	if !strings.HasPrefix(s.text[s.pos:], word) {
		return false
	}
	s.pos += len(word)
	return true
}

// space steps over space, line ends and comments.
func (s *scanner) space() {
	for !s.end() && strings.IndexByte(" \t\r\n#", s.text[s.pos]) >= 0 {
		if s.next() == '#' {
			s.comment()
		}
	}
}

func (s *scanner) comment() {
	for !s.end() && s.text[s.pos] != '\n' {
		s.pos++
	}
}

// place returns the dotted key that comes next, below a table. A part that is an
// array of tables means the last of them so far. It steps over one byte at least.
func (s *scanner) place(table string, entries map[string]int) string {
	place, start := table, s.pos
	for !s.end() {
		place = join(place, s.key())
		if s.spaceInLine(); !s.skip(".") {
			break
		}
		if n := entries[place]; n > 0 {
			place = fmt.Sprintf("%s[%d]", place, n-1)
		}
	}
	if s.pos == start {
		s.next()
	}
	return place
}

// key returns one part of a dotted key.
func (s *scanner) key() string {
	s.spaceInLine()
	start := s.pos
	if !s.end() && (s.text[s.pos] == '"' || s.text[s.pos] == '\'') {
		s.quoted()
		return strings.Trim(s.text[start:s.pos], `"'`)
	}
	for !s.end() && strings.IndexByte(" \t\r\n=.]#", s.text[s.pos]) < 0 {
		s.pos++
	}
	return s.text[start:s.pos]
}

func (s *scanner) spaceInLine() {
	for !s.end() && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t') {
		s.pos++
	}
}

// value steps over a value to the end of its line, which an array or a text
// in three quotes may put off.
func (s *scanner) value() {
	for depth := 0; !s.end(); {
		switch s.text[s.pos] {
		case '"', '\'':
			s.quoted()
			continue
		case '#':
			s.comment()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n':
			if depth <= 0 {
				return
			}
		}
		s.next()
	}
}

// quoted steps over a text in quotes.
func (s *scanner) quoted() {
	quote := s.text[s.pos : s.pos+1]
	closing := quote
	if s.skip(quote + quote + quote) {
		closing = quote + quote + quote
	} else {
		s.pos++
	}
	for !s.end() {
		if s.skip(closing) {
			// A text in three quotes may end with one or two of its own.
			for len(closing) == 3 && s.skip(quote) {
			}
			return
		}
		if s.next() == '\\' && quote == `"` && !s.end() {
			s.next()
		}
	}
}
