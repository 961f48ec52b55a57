package nhc

import "strings"

// glob tells whether a text matches a pattern as in bash's [[ text == pattern ]], which knows
// extended patterns such as !(a|b) always.
func glob(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if strings.IndexByte("?*+@!", pattern[0]) >= 0 {
		if list, rest, found := alternatives(pattern[1:]); found {
			return extended(pattern[0], list, rest, text)
		}
	}
	switch pattern[0] {
	case '*':
		return someTail(text, func(_, tail string) bool { return glob(pattern[1:], tail) })
	case '?':
		return text != "" && glob(pattern[1:], text[1:])
	case '[':
		if set, rest, closed := bracket(pattern); closed {
			return text != "" && set.has(text[0]) && glob(rest, text[1:])
		}
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return text != "" && text[0] == pattern[0] && glob(pattern[1:], text[1:])
}

// someTail tells whether f is true of any way to cut a text in two.
func someTail(text string, f func(head, tail string) bool) bool {
	for i := range len(text) + 1 {
		if f(text[:i], text[i:]) {
			return true
		}
	}
	return false
}

// extended matches one of a list, as often as the sign before it says, and then the rest.
func extended(sign byte, list []string, rest, text string) bool {
	one := func(head string) bool {
		for _, p := range list {
			if glob(p, head) {
				return true
			}
		}
		return false
	}
	if (sign == '?' || sign == '*') && glob(rest, text) {
		return true
	}
	return someTail(text, func(head, tail string) bool {
		switch {
		case sign == '!':
			return !one(head) && glob(rest, tail)
		case !one(head):
			return false
		}
		again := (sign == '*' || sign == '+') && head != "" && extended('*', list, rest, tail)
		return again || glob(rest, tail)
	})
}

// alternatives cuts "(a|b)rest" in the list and the rest.
func alternatives(text string) (list []string, rest string, found bool) {
	if text == "" || text[0] != '(' {
		return nil, "", false
	}
	depth, begin := 0, 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			if _, after, closed := bracket(text[i:]); closed {
				i = len(text) - len(after) - 1
			}
		case '(':
			depth++
		case '|':
			if depth == 1 {
				list, begin = append(list, text[begin:i]), i+1
			}
		case ')':
			if depth--; depth == 0 {
				return append(list, text[begin:i]), text[i+1:], true
			}
		}
	}
	return nil, "", false
}

// set is what a bracket expression matches.
type set struct {
	not   bool
	bytes [256]bool
}

func (s *set) has(c byte) bool { return s.bytes[c] != s.not }

// classes of a bracket expression, as in [[:digit:]].
var classes = map[string]func(byte) bool{
	"digit": func(c byte) bool { return '0' <= c && c <= '9' },
	"lower": func(c byte) bool { return 'a' <= c && c <= 'z' },
	"upper": func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"alpha": isLetter,
	"alnum": func(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' },
	"word":  func(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '_' },
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// bracket cuts "[a-z]rest" in what the brackets have and the rest.
func bracket(pattern string) (s set, rest string, closed bool) {
	p := pattern[1:]
	if p != "" && (p[0] == '!' || p[0] == '^') {
		s.not, p = true, p[1:]
	}
	for first := true; p != ""; first = false {
		if p[0] == ']' && !first {
			return s, p[1:], true
		}
		if name, after, found := strings.Cut(strings.TrimPrefix(p, "[:"), ":]"); found && strings.HasPrefix(p, "[:") && classes[name] != nil {
			s.add(classes[name])
			p = after
			continue
		}
		var low, high byte
		low, p = member(p)
		high = low
		if len(p) > 1 && p[0] == '-' && p[1] != ']' {
			high, p = member(p[1:])
		}
		s.add(func(c byte) bool { return low <= c && c <= high })
	}
	return set{}, "", false
}

// member returns the first byte of a text, which may be escaped.
func member(p string) (c byte, rest string) {
	if p[0] == '\\' && len(p) > 1 {
		p = p[1:]
	}
	return p[0], p[1:]
}

func (s *set) add(is func(byte) bool) {
	for c := range s.bytes {
		s.bytes[c] = s.bytes[c] || is(byte(c))
	}
}
