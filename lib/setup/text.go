package setup

import (
	"fmt"
	"strings"

	"gresnet/lib/slurm"
)

// text is a file of Slurm's as lines, which are changed one by one: all others stay as they are.
type text struct {
	file  string // for people
	lines []string
}

func parse(file, content string) text {
	lines := strings.SplitAfter(content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return text{file, lines}
}

// String is the file's content.
func (t text) String() string { return strings.Join(t.lines, "") }

// add adds a line at the end, on a line of its own.
func (t *text) add(line string) {
	if n := len(t.lines); n > 0 && !strings.HasSuffix(t.lines[n-1], "\n") {
		t.lines[n-1] += "\n"
	}
	t.lines = append(t.lines, line+"\n")
}

// pair is where Key=Value is in a line.
type pair struct {
	line       int
	key        string // in lower case
	begin, end int    // of the value, with its quotes
	value      string
}

// pairs are those of a line, less its comment, as Slurm takes them.
func (t text) pairs(line int) (all []pair) {
	code, _, _ := strings.Cut(strings.TrimRight(t.lines[line], "\r\n"), "#")
	for at := 0; at < len(code); {
		equals := strings.IndexByte(code[at:], '=')
		if equals < 0 {
			break
		}
		key := strings.ToLower(strings.TrimSpace(code[at : at+equals]))
		begin := at + equals + 1
		for begin < len(code) && (code[begin] == ' ' || code[begin] == '\t') {
			begin++
		}
		end := begin
		if begin < len(code) && code[begin] == '"' {
			if shut := strings.IndexByte(code[begin+1:], '"'); shut >= 0 {
				end = begin + 1 + shut + 1
			} else {
				end = len(code)
			}
		} else if space := strings.IndexAny(code[begin:], " \t"); space >= 0 {
			end = begin + space
		} else {
			end = len(code)
		}
		all = append(all, pair{line, key, begin, end, strings.Trim(code[begin:end], `"`)})
		at = end
	}
	return all
}

// refuse says what of the file setup does not understand.
func (t text) refuse() (all []Refusal) {
	for i, line := range t.lines {
		code, _, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "#")
		fields := strings.Fields(code)
		switch {
		case strings.HasSuffix(code, `\`):
			all = append(all, Refusal{fmt.Sprintf("%s:%d goes on in the next line", t.file, i+1), "GN242 write it as one line, then run setup again"})
		case len(fields) == 2 && strings.EqualFold(fields[0], "include"):
			all = append(all, Refusal{fmt.Sprintf("%s:%d includes %s, which may have other nodes' lines", t.file, i+1, fields[1]),
				"GN243 make the changes by hand: gresnet(7), Install by hand; then gresnet-prolog check"})
		}
	}
	return all
}

// keys are the lines that begin with a key.
func (t text) keys(key string) (all []pair) {
	for i := range t.lines {
		if pairs := t.pairs(i); len(pairs) > 0 && pairs[0].key == strings.ToLower(key) {
			all = append(all, pairs[0])
		}
	}
	return all
}

// replace gives a pair another value.
func (t *text) replace(p pair, value string) {
	line := t.lines[p.line]
	if strings.HasPrefix(line[p.begin:p.end], `"`) || strings.ContainsAny(value, " \t") {
		value = `"` + value + `"`
	}
	t.lines[p.line] = line[:p.begin] + value + line[p.end:]
}

// insert puts Key=Value after a pair of a line.
func (t *text) insert(after pair, key, value string) {
	line := t.lines[after.line]
	t.lines[after.line] = line[:after.end] + " " + key + "=" + value + line[after.end:]
}

// list sees to a word in the list that a key has: the last line counts.
func (t *text) list(key, word string) {
	all := t.keys(key)
	if len(all) == 0 {
		t.add(key + "=" + word)
		return
	}
	last := all[len(all)-1]
	for _, have := range strings.Split(last.value, ",") {
		if strings.EqualFold(strings.TrimSpace(have), word) {
			return
		}
	}
	value := word
	if last.value != "" {
		value = last.value + "," + word
	}
	t.replace(last, value)
}

// gresOf sees to what a list such as "gpu:8,nic:hdr:2(S:0)" has of some names: want.
func gresOf(list string, names []string, want string) string {
	var kept []string
	for rest, more := list, list != ""; more; {
		var part string
		part, rest, more = slurm.CutOutside(rest, '(', ')')
		name, _, _ := strings.Cut(part, ":")
		ours := false
		for _, n := range names {
			ours = ours || n == name
		}
		if !ours {
			kept = append(kept, part)
		}
	}
	return strings.Join(append(kept, want), ",")
}
