package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
)

// Hostlist is a list of host names as Slurm writes it: "node[1-3,7],gpu05",
// "rack[0-1]n[01-16]-ib". It is matched against a name without being spelled out,
// so that a list of any length costs nothing; Names spells it out.
type Hostlist []hostPattern

// hostPattern is an element of a hostlist: literal texts and numbers in turn.
type hostPattern []hostPart

type hostPart struct {
	literal string
	numbers []hostRange // in brackets; if any, literal is empty
}

type hostRange struct {
	low, high uint64
	width     int // of the first number: "001-016" has 3
}

// Bounds. The first two are Slurm's own (src/common/hostlist.h, MAX_RANGE and MAX_PREFIX_CNT).
const (
	maxHostRange  = 64 * 1024
	maxHostDigits = 18
	maxHostParts  = 64
	maxHostName   = 255
)

// ParseHostlist parses what Slurm reads (src/common/hostlist.c:_hostlist_create_bracketed).
func ParseHostlist(text string) (Hostlist, error) {
	var list Hostlist
	for _, element := range hostElements(text) {
		p, err := parseHostPattern(element)
		if err != nil {
			return nil, fmt.Errorf("parse hostlist %q: %w", hint.Clip(text), err)
		}
		list = append(list, p)
	}
	return list, nil
}

// hostElements divides a list at commas and blanks that are not between brackets.
func hostElements(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && strings.ContainsRune(", \t\n", c)
	})
}

// Parts returns what is between the commas of a list of GRES. Those in parentheses divide nothing.
func Parts(list string) (parts []string) {
	depth, begin := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, begin = append(parts, list[begin:i]), i+1
			}
		}
	}
	return append(parts, list[begin:])
}

func parseHostPattern(text string) (hostPattern, error) {
	var p hostPattern
	for rest := text; rest != ""; {
		literal, brackets, bracketed := strings.Cut(rest, "[")
		if strings.Contains(literal, "]") || endDigits(literal) > maxHostDigits {
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
		numbers, err := parseHostRanges(inside)
		if err != nil {
			return nil, err
		}
		p = append(p, hostPart{numbers: numbers})
		rest = after
	}
	if len(p) > maxHostParts {
		return nil, fmt.Errorf("%q is no host name", hint.Clip(text))
	}
	return p, nil
}

// parseHostRanges parses what is in brackets: "1-3,007,9-".
func parseHostRanges(text string) (list []hostRange, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, _ := strings.Cut(part, "-")
		if last == "" {
			last = first
		}
		low, lowErr := parseHostNumber(first)
		high, highErr := parseHostNumber(last)
		if lowErr != nil || highErr != nil || high < low || high-low >= maxHostRange {
			return nil, fmt.Errorf("%q is no range of up to %d numbers", hint.Clip(part), maxHostRange)
		}
		list = append(list, hostRange{low, high, len(first)})
	}
	return list, nil
}

// parseHostNumber parses decimal digits and nothing else.
func parseHostNumber(text string) (uint64, error) {
	if digits(text) > maxHostDigits {
		return 0, strconv.ErrRange
	}
	return strconv.ParseUint(text, 10, 64)
}

// digits returns how many digits a text begins with.
func digits(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }

// endDigits returns how many digits a text ends with.
func endDigits(text string) int { return len(text) - len(strings.TrimRight(text, "0123456789")) }

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

// matches goes through the parts with all places of the name that the parts before can reach: two
// brackets may touch, so a part may end at several.
func (p hostPattern) matches(name string) bool {
	reached := map[int]bool{0: true}
	for _, part := range p {
		next := map[int]bool{}
		for at := range reached {
			for n := range part.lengths(name[at:]) {
				next[at+n] = true
			}
		}
		reached = next
	}
	return reached[len(name)]
}

// lengths returns those of the beginnings of a text that are the part's.
func (p hostPart) lengths(text string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if p.numbers == nil {
			if strings.HasPrefix(text, p.literal) {
				yield(len(p.literal))
			}
			return
		}
		for n := 1; n <= min(digits(text), maxHostDigits); n++ {
			if p.has(text[:n]) && !yield(n) {
				return
			}
		}
	}
}

func (p hostPart) has(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false
	}
	for _, r := range p.numbers {
		if r.low <= n && n <= r.high && r.format(n) == text {
			return true
		}
	}
	return false
}

func (r hostRange) format(n uint64) string { return string(r.append(nil, n)) }

// append appends a number to a text.
func (r hostRange) append(text []byte, n uint64) []byte {
	begin := len(text)
	text = strconv.AppendUint(text, n, 10)
	for len(text)-begin < r.width {
		text = slices.Insert(text, begin, '0')
	}
	return text
}

// Names spells the list out, in its order and with the names that are there twice, as
// `scontrol show hostnames` does. More names than most are an error.
func (l Hostlist) Names(most int) ([]string, error) {
	s := spelling{most: most}
	for _, p := range l {
		if err := p.names(&s); err != nil {
			return nil, fmt.Errorf("spell a hostlist out: %w", err)
		}
	}
	return s.names(), nil
}

// spelling is a list while it is spelled out: all names in one text, because a cluster has thousands.
type spelling struct {
	text []byte
	ends []int // of the names in it
	most int
}

func (s *spelling) names() (all []string) {
	text, begin := string(s.text), 0
	all = slices.Grow(all, len(s.ends))
	for _, end := range s.ends {
		all, begin = append(all, text[begin:end]), end
	}
	return all
}

// end ends a name.
func (s *spelling) end() error {
	begin := 0
	if len(s.ends) > 0 {
		begin = s.ends[len(s.ends)-1]
	}
	switch {
	case len(s.ends) >= s.most:
		return fmt.Errorf("it has more than %d names", s.most)
	case len(s.text)-begin > maxHostName:
		return fmt.Errorf("a name has more than %d letters", maxHostName)
	}
	s.ends = append(s.ends, len(s.text))
	return nil
}

// names spells an element out. The last brackets count fastest, then the first, the second and so on, as
// in Slurm (src/common/hostlist.c:_push_range_list).
func (p hostPattern) names(s *spelling) error {
	texts := make([][]byte, len(p))
	var order []int // of the parts in brackets, the slowest first
	for i, part := range p {
		texts[i] = []byte(part.literal)
		if part.numbers != nil {
			order = append([]int{i}, order...)
		}
	}
	if len(order) > 0 {
		order = append(order[1:], order[0])
	}
	return p.spell(s, texts, order)
}

// spell spells the names that some texts have with all numbers of the parts in order.
func (p hostPattern) spell(s *spelling, texts [][]byte, order []int) error {
	if len(order) == 0 {
		for _, text := range texts {
			s.text = append(s.text, text...)
		}
		return s.end()
	}
	at := order[0]
	for _, r := range p[at].numbers {
		for n := r.low; n <= r.high; n++ {
			texts[at] = r.append(texts[at][:0], n)
			if err := p.spell(s, texts, order[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}
