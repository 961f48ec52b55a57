package slurm

import (
	"fmt"
	"strings"

	"gresnet/lib/base/hint"
)

// Pair is Key=Value. Slurm takes keys in any case; here they are lower case.
type Pair struct {
	Key, Value string
	Name       string // the key as the file has it
	begin, end int    // of the value with its quotes, in the file's text
}

// statement is what Slurm takes for one line: lines of the file that a backslash joins, without
// comments and escapes (Slurm src/common/parse_config.c:_get_next_line).
type statement struct {
	number int     // of its first line in the file
	text   string  // ends with its newline
	at     []place // for each byte of text
	open   bool    // the file ends before the statement does
}

// place is where a byte is in the file's text, with the backslash before it.
type place struct{ begin, end int }

// statements divides a file's text.
func statements(text string) (all []statement) {
	s := statement{number: 1}
	start, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		code, goesOn := codeOf(line)
		s.append(code, start)
		start += len(line)
		if s.open = goesOn; !goesOn {
			all = append(all, s.unescape())
			s = statement{number: number + 1}
		}
	}
	if s.open {
		all = append(all, s.unescape())
	}
	return all
}

// end returns the offset after the statement in the file's text, its comment not counted.
func (s statement) end() int { return s.at[len(s.at)-1].end }

// append adds a line's code, which begins at an offset of the file's text.
func (s *statement) append(code string, offset int) {
	s.text += code
	for i := range len(code) {
		s.at = append(s.at, place{offset + i, offset + i + 1})
	}
}

// unescape takes the backslashes out: each stands for what comes after it.
func (s statement) unescape() statement {
	plain, at := make([]byte, 0, len(s.text)), make([]place, 0, len(s.at))
	for i := 0; i < len(s.text); i++ {
		begin := s.at[i].begin
		if s.text[i] == '\\' && i+1 < len(s.text) {
			i++
		}
		plain, at = append(plain, s.text[i]), append(at, place{begin, s.at[i].end})
	}
	s.text, s.at = string(plain), at
	return s
}

// codeOf returns a line of a file up to its comment, or to a NUL. A line goes on in the next one
// if an odd number of backslashes ends it, blanks not counted; code is then without the last of them.
func codeOf(line string) (code string, goesOn bool) {
	code, _, _ = strings.Cut(line, "\x00")
	backslashes := 0
	for i := range len(code) {
		if code[i] == '#' && backslashes%2 == 0 {
			code = code[:i]
			break
		}
		if code[i] == '\\' {
			backslashes++
		} else {
			backslashes = 0
		}
	}
	trimmed := strings.TrimRight(code, spaces)
	if n := len(trimmed) - len(strings.TrimRight(trimmed, `\`)); n%2 == 1 {
		return trimmed[:len(trimmed)-1], true
	}
	return code, false
}

const spaces = " \t\n\v\f\r"

func isSpace(c byte) bool { return strings.IndexByte(spaces, c) >= 0 }

// included returns the file that a statement names that begins with Include, which may be empty.
func (s statement) included() (file, rest string, is bool) {
	const word = "include"
	if len(s.text) <= len(word) || !strings.EqualFold(s.text[:len(word)], word) || !isSpace(s.text[len(word)]) {
		return "", "", false
	}
	name := strings.TrimLeft(s.text[len(word):], spaces)
	if end := strings.IndexAny(name, spaces); end >= 0 {
		name, rest = name[:end], name[end:]
	}
	return name, rest, true
}

// pairs returns those of a statement. An error says what Slurm does not understand.
func (s statement) pairs() (all []Pair, err error) {
	at := 0
	for {
		p, end, found := s.pair(at)
		if !found {
			break
		}
		all = append(all, p)
		at = end
	}
	if rest := strings.Trim(s.text[at:], spaces); rest != "" {
		return all, fmt.Errorf("%q is not KEY=VALUE", hint.Clip(rest))
	}
	return all, nil
}

// pair returns the first one from a place on, as Slurm's regular expression finds it
// (src/common/parse_config.c:keyvalue_pattern).
func (s statement) pair(at int) (p Pair, end int, found bool) {
	skip := func(i int, of string) int {
		for i < len(s.text) && strings.IndexByte(of, s.text[i]) >= 0 {
			i++
		}
		return i
	}
	at = skip(at, spaces)
	after := skip(at, keyLetters)
	p.Name = s.text[at:after]
	p.Key = strings.ToLower(p.Name)
	at = skip(after, spaces)
	if at < len(s.text) && strings.IndexByte("-*+/", s.text[at]) >= 0 {
		at++
	}
	if p.Key == "" || at == len(s.text) || s.text[at] != '=' {
		return p, 0, false
	}
	at = skip(at+1, spaces)
	if end = s.value(at); end == at {
		return p, 0, false
	}
	p.begin, p.end = s.at[at].begin, s.at[end-1].end
	if p.Value = s.text[at:end]; s.isQuoted(at, end) {
		p.Value = p.Value[1 : len(p.Value)-1]
	}
	return p, end, true
}

const keyLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_."

// value returns the end of the value that begins at a place: the first blank, or the quote that closes the
// one there, if a blank follows it.
func (s statement) value(at int) (end int) {
	if at < len(s.text) && s.text[at] == '"' {
		if shut := strings.IndexByte(s.text[at+1:], '"'); shut >= 0 {
			if end = at + 1 + shut + 1; end == len(s.text) || isSpace(s.text[end]) {
				return end
			}
		}
	}
	if end := strings.IndexAny(s.text[at:], spaces); end >= 0 {
		return at + end
	}
	return len(s.text)
}

// isQuoted tells whether a value has a quote at its begin, another at its end, and none between.
func (s statement) isQuoted(at, end int) bool {
	return end-at > 1 && s.text[at] == '"' && strings.IndexByte(s.text[at+1:end], '"') == end-at-2
}
