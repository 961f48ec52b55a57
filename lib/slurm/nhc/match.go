package nhc

import (
	"regexp"
	"strconv"
	"strings"
)

// Matches tells whether a line's target means a host, as NHC's mcheck does (scripts/common.nhc): a
// glob of bash's, a regular expression between slashes, or a list of nodes in braces, each perhaps
// after an exclamation mark. It is not sure of what this program does not read as bash does; then
// it takes the target for the host's.
func Matches(host, target string) (match, sure bool) {
	target, not := strings.CutPrefix(target, "!")
	switch {
	case len(target) > 1 && target[0] == '/' && target[len(target)-1] == '/':
		match, sure = expression(host, target[1:len(target)-1])
	case len(target) > 1 && target[0] == '{' && target[len(target)-1] == '}':
		match, sure = inList(host, target[1:len(target)-1]), true
	default:
		match, sure = glob(target, host), target != "/" && !odd(target)
	}
	return !sure || match != not, sure
}

// odd tells whether a pattern has an extended list that is empty or not closed, one beside a bracket that is
// not closed, or one after an asterisk. Bash reads these in more than one way: a is no *!(1) for bash 5.2.
func odd(pattern string) bool {
	lists := false
	for i := range pattern {
		if strings.IndexByte("?*+@!", pattern[i]) < 0 || !strings.HasPrefix(pattern[i+1:], "(") {
			continue
		}
		_, _, closed := alternatives(pattern[i+1:])
		before := pattern[len(strings.TrimRight(pattern[:i], "?*")):i]
		if !closed || strings.Contains(before, "*") {
			return true
		}
		lists = true
	}
	return strings.Contains(pattern, "()") || lists && hasOpenBracket(pattern)
}

// hasOpenBracket tells whether a pattern has a bracket that is not closed.
func hasOpenBracket(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			_, after, closed := bracket(pattern[i:])
			if !closed {
				return true
			}
			i = len(pattern) - len(after) - 1
		}
	}
	return false
}

// plain has what this program's regular expressions and those of the C library read alike.
var plain = regexp.MustCompile(`^\^?([-a-zA-Z0-9_.]|\\\.|\.[*+?]|\[[a-zA-Z0-9_]+(-[a-zA-Z0-9])?\][*+?]?|[(|)])*\$?$`)

func expression(host, text string) (match, sure bool) {
	e, err := regexp.CompilePOSIX(text)
	if err != nil || !plain.MatchString(text) {
		return false, false
	}
	return e.MatchString(host), true
}

var (
	oneNode = regexp.MustCompile(`^[-a-zA-Z0-9_]+[0-9]+[-\\.a-zA-Z0-9]*$`)
	aRange  = regexp.MustCompile(`^([-a-zA-Z0-9_]+)\[([0-9]+)-([0-9]+)\]([-\\.a-zA-Z0-9]*)$`)
)

// inList tells whether a list as pdsh has it, n1,n[03-10].cluster, has a host. What is no node's name
// ends the list. A bare comma at its end does not.
func inList(host, list string) bool {
	for _, group := range strings.Split(strings.TrimSuffix(list, ","), ",") {
		if oneNode.MatchString(group) {
			if glob(group, host) {
				return true
			}
			continue
		}
		m := aRange.FindStringSubmatch(group)
		if m == nil {
			return false
		}
		if inRange(host, m[1], m[2], m[3], m[4]) {
			return true
		}
	}
	return false
}

// inRange tells whether a host is prefix, a number of the range, suffix. The number has as many
// digits as the first of the range, or as the last if that has more.
func inRange(host, prefix, first, last, suffix string) bool {
	number, found := strings.CutPrefix(host, prefix)
	if !found {
		return false
	}
	if suffix != "" {
		if !strings.HasSuffix(host, suffix) {
			return false
		}
		number = strings.TrimSuffix(number, suffix)
	}
	if len(number) != max(len(first), len(last)) && len(first) < len(last) || len(number) != len(first) && len(first) >= len(last) {
		return false
	}
	low, err1 := strconv.ParseUint(first, 10, 63)
	high, err2 := strconv.ParseUint(last, 10, 63)
	n, err3 := strconv.ParseUint(number, 10, 63)
	return err1 == nil && err2 == nil && err3 == nil && min(low, high) <= n && n <= max(low, high)
}
