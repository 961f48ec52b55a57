package setup

import (
	"io/fs"
	"slices"
	"strings"

	"gresnet/lib/slurm"
)

// text is a file that is changed pair by pair, as Slurm reads it: all else stays as it is. Slurm reads it with all that
// it includes, and so do lines and keys.
type text struct {
	p       *planner
	file    string // for people
	content string
	was     string // the content before
	there   bool   // there was such a file
	planned bool   // its change is in the plan
}

// correct is what to do about a line that does not read.
const correct = "GN404 correct the line, which slurmd does not read either, then run setup again"

// planned has the node's files with what is planned so far.
type planned struct {
	fs.FS
	texts map[string]*text
}

func (p planned) ReadFile(name string) ([]byte, error) {
	if t, is := p.texts["/"+name]; is && (t.there || t.content != "") {
		return []byte(t.content), nil
	}
	return fs.ReadFile(p.FS, name)
}

// read returns the file's lines with those of files that it includes.
func (t *text) read() (slurm.Conf, error) {
	if !t.there && t.content == "" {
		return nil, nil
	}
	return slurm.Read(planned{t.p.Root, t.p.texts}, t.file)
}

// lines returns the file's lines as far as Slurm reads them.
func (t *text) lines() slurm.Conf {
	conf, _ := t.read() // openConf refuses what Slurm does not read
	return conf
}

// parse returns the file alone, without what it includes.
func (t *text) parse() slurm.File {
	f, _ := slurm.ParseFile(t.file, t.content) // as lines
	return f
}

// of returns the file that a line is in.
func (t *text) of(l slurm.Line) *text { return t.p.text(l.File) }

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
	o, at := t.of(l), 0
	for range l.Number - 1 {
		at += strings.IndexByte(o.content[at:], '\n') + 1
	}
	o.content = o.content[:at] + line + "\n" + o.content[at:]
}

// keys returns the lines that begin with a key.
func (t *text) keys(key string) []slurm.Line { return t.lines().All(strings.ToLower(key)) }

// replace gives a pair of a line another value.
func (t *text) replace(l slurm.Line, p slurm.Pair, value string) {
	o := t.of(l)
	o.content = o.parse().Replace(p, value)
}

// insert puts Key=Value after the first pair of a line.
func (t *text) insert(l slurm.Line, key, value string) {
	o := t.of(l)
	o.content = o.parse().Insert(l.Keys[0], key, value)
}

// list sees to a word in the list that a key has: the last line counts.
func (t *text) list(key, word string) {
	all := t.keys(key)
	if len(all) == 0 {
		t.add(key + "=" + word)
		return
	}
	last := all[len(all)-1]
	for _, have := range strings.Split(last.Keys[0].Value, ",") {
		if strings.EqualFold(strings.TrimSpace(have), word) {
			return
		}
	}
	value := word
	if had := last.Keys[0].Value; had != "" {
		value = had + "," + word
	}
	t.replace(last, last.Keys[0], value)
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
