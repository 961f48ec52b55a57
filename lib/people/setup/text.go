package setup

import (
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/slurm"
)

// text is a file that is changed pair by pair, as Slurm reads it: all else stays as it is.
type text struct {
	file    string // for people
	content string
	was     string // the content before
	there   bool   // there was such a file
}

// correct is what to do about a line that does not read.
const correct = "GN404 correct the line, which slurmd does not read either, then run setup again"

// add adds a line at the end, on a line of its own.
func (t *text) add(line string) {
	if t.content != "" && !strings.HasSuffix(t.content, "\n") {
		t.content += "\n"
	}
	if t.parse().GoesOn() {
		t.content += "\n" // an empty line ends the one that a backslash has go on
	}
	t.content += line + "\n"
}

// before adds a line before another.
func (t *text) before(l slurm.Line, line string) {
	at := 0
	for range l.Number - 1 {
		at += strings.IndexByte(t.content[at:], '\n') + 1
	}
	t.content = t.content[:at] + line + "\n" + t.content[at:]
}

// parse returns the file as far as Slurm reads it.
func (t text) parse() slurm.File {
	f, _ := slurm.ParseFile(t.file, t.content) // refuse says what Slurm does not read
	return f
}

// refuse says what of the file setup does not understand.
func (t text) refuse() (all []Refusal) {
	f, err := slurm.ParseFile(t.file, t.content)
	if err != nil {
		return []Refusal{{err.Error(), correct}}
	}
	for _, l := range f.Lines {
		if l.Include != "" {
			all = append(all, Refusal{fmt.Sprintf("%s:%d includes %s, which may have other nodes' lines", t.file, l.Number, l.Include),
				"GN243 make the changes by hand: gresnet(7), Install by hand; then gresnet check"})
		}
	}
	return all
}

// keys returns the lines that begin with a key.
func (t text) keys(key string) (all []slurm.Line) {
	for _, l := range t.parse().Lines {
		if len(l.Keys) > 0 && l.Keys[0].Key == strings.ToLower(key) {
			all = append(all, l)
		}
	}
	return all
}

// replace gives a pair another value.
func (t *text) replace(p slurm.Pair, value string) { t.content = t.parse().Replace(p, value) }

// insert puts Key=Value after a pair of a line.
func (t *text) insert(after slurm.Pair, key, value string) {
	t.content = t.parse().Insert(after, key, value)
}

// list sees to a word in the list that a key has: the last line counts.
func (t *text) list(key, word string) {
	all := t.keys(key)
	if len(all) == 0 {
		t.add(key + "=" + word)
		return
	}
	last := all[len(all)-1].Keys[0]
	for _, have := range strings.Split(last.Value, ",") {
		if strings.EqualFold(strings.TrimSpace(have), word) {
			return
		}
	}
	value := word
	if last.Value != "" {
		value = last.Value + "," + word
	}
	t.replace(last, value)
}

// gresOf sees to what a list such as "gpu:8,nic:hdr:2(S:0)" has of some names: want.
func gresOf(list string, names []string, want string) string {
	var kept []string
	for _, part := range slurm.Parts(list) {
		if name, _, _ := strings.Cut(part, ":"); name != "" && !slices.Contains(names, name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(append(kept, want), ",")
}
