package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"gresnet/lib/hint"
	"gresnet/lib/indices"
)

// Hostlist is a list of host names as Slurm writes it: "node[1-3,7],gpu05",
// "rack[0-1]n[01-16]-ib". It is matched against a name without being spelled out,
// so that a list of any length costs nothing; Names spells it out.
type Hostlist []hostPattern

// hostPattern is an element of a hostlist: literal texts and numbers in turn.
type hostPattern []hostPart

type hostPart struct {
	literal string
	numbers []indices.Range // in brackets; if any, literal is empty
}

// Bounds, which also bound the work that a match can be.
const (
	maxHostParts = 9
	maxHostName  = 255
)

// ParseHostlist parses what Slurm src/common/hostlist.c prints.
func ParseHostlist(text string) (Hostlist, error) {
	var list Hostlist
	for rest, more := text, true; more; {
		var element string
		element, rest, more = CutOutside(rest, '[', ']')
		p, err := parseHostPattern(element)
		if err != nil {
			return nil, fmt.Errorf("parse hostlist %q: %w", hint.Clip(text), err)
		}
		list = append(list, p)
	}
	return list, nil
}

// CutOutside cuts Slurm's lists, at the first comma that is not between brackets.
func CutOutside(text string, open, shut byte) (before, after string, found bool) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case open:
			depth++
		case shut:
			depth--
		case ',':
			if depth == 0 {
				return text[:i], text[i+1:], true
			}
		}
	}
	return text, "", false
}

func parseHostPattern(text string) (hostPattern, error) {
	var p hostPattern
	for rest := text; rest != ""; {
		literal, brackets, bracketed := strings.Cut(rest, "[")
		if strings.ContainsAny(literal, "] \t\r\n") {
			return nil, fmt.Errorf("%q is no host name", hint.Clip(text))
		}
		if literal != "" {
			p = append(p, hostPart{literal: literal})
		}
		if !bracketed {
			break
		}
		inside, after, closed := strings.Cut(brackets, "]")
		if !closed {
			return nil, fmt.Errorf("%q has no closing bracket", hint.Clip(text))
		}
		numbers, err := indices.ParseRanges(inside)
		if err != nil {
			return nil, fmt.Errorf("%q is no range of numbers: %w", hint.Clip(inside), err)
		}
		p = append(p, hostPart{numbers: numbers})
		rest = after
	}
	if len(p) == 0 || len(p) > maxHostParts {
		return nil, fmt.Errorf("%q is no host name", hint.Clip(text))
	}
	return p, nil
}

// digits is how many digits a text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// Contains tells whether a host is in the list.
func (l Hostlist) Contains(name string) bool {
	if len(name) > maxHostName {
		return false
	}
	for _, p := range l {
		if p.matches(name) {
			return true
		}
	}
	return false
}

func (p hostPattern) matches(name string) bool {
	if len(p) == 0 {
		return name == ""
	}
	part, rest := p[0], p[1:]
	if part.numbers == nil {
		after, ok := strings.CutPrefix(name, part.literal)
		return ok && rest.matches(after)
	}
	// Two brackets may touch, so every length that is a number of the first is tried.
	for n := 1; n <= min(digits(name), indices.MaxDigits); n++ {
		if part.has(name[:n]) && rest.matches(name[n:]) {
			return true
		}
	}
	return false
}

func (p hostPart) has(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false
	}
	for _, r := range p.numbers {
		if r.Low <= n && n <= r.High && fmt.Sprintf("%0*d", r.Width, n) == text {
			return true
		}
	}
	return false
}

// Names spells the list out, in its order and with the names that are there twice, as
// `scontrol show hostnames` does. More names than most are an error.
func (l Hostlist) Names(most int) ([]string, error) {
	var names []string
	for _, p := range l {
		var err error
		if names, err = p.names(names, most); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// names appends an element's names: the last brackets count fastest.
func (p hostPattern) names(names []string, most int) ([]string, error) {
	own := []string{""}
	for _, part := range p {
		if part.numbers == nil {
			for i := range own {
				own[i] += part.literal
			}
			continue
		}
		var longer []string
		for _, name := range own {
			for _, r := range part.numbers {
				if r.High-r.Low >= uint64(most) || len(names)+len(longer)+int(r.High-r.Low) >= most {
					return nil, fmt.Errorf("spell a hostlist out: it has more than %d names", most)
				}
				for n := r.Low; n <= r.High; n++ {
					longer = append(longer, name+fmt.Sprintf("%0*d", r.Width, n))
				}
			}
		}
		own = longer
	}
	if len(names)+len(own) > most {
		return nil, fmt.Errorf("spell a hostlist out: it has more than %d names", most)
	}
	for _, name := range own {
		if len(name) > maxHostName {
			return nil, fmt.Errorf("spell a hostlist out: a name has more than %d letters", maxHostName)
		}
	}
	return append(names, own...), nil
}
