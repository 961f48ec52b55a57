// Package slurm reads Slurm's own files: what a site told Slurm must fit what it told gresnet, and
// asking slurmctld would be an RPC. By the files of Slurm's plugins it tells which Slurm is installed; it loads
// none, and runs no program.
package slurm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Line is a line of slurm.conf or gres.conf: Key=Value pairs.
type Line struct {
	File    string
	Number  int
	Keys    []Pair
	Include string // the file that the line includes; it has no keys then
}

// Get returns a key's value, empty if the line does not have it. Slurm takes the last of several.
func (l Line) Get(key string) string { return l.Pair(key).Value }

// Pair returns the last with a key, the zero one if there is none.
func (l Line) Pair(key string) Pair {
	for _, p := range slices.Backward(l.Keys) {
		if p.Key == key {
			return p
		}
	}
	return Pair{}
}

// String returns the line with all of its pairs.
func (l Line) String() string {
	var pairs []string
	for _, p := range l.Keys {
		pairs = append(pairs, p.Name+"="+quote(p.Value, false))
	}
	return strings.Join(pairs, " ")
}

// fault is an error with the line's place.
func (l Line) fault(err error) error { return fmt.Errorf("%s:%d: %w", l.File, l.Number, err) }

// Conf is a configuration file with all that it includes.
type Conf []Line

// Last returns the value of a key that the last line with it gives; Slurm warns of
// two and uses the latest (Slurm src/common/parse_config.c).
func (c Conf) Last(key string) string {
	value := ""
	for _, l := range c {
		if l.Keys[0].Key == key {
			value = l.Keys[0].Value
		}
	}
	return value
}

// All returns the lines that begin with a key.
func (c Conf) All(key string) []Line {
	var lines []Line
	for _, l := range c {
		if l.Keys[0].Key == key {
			lines = append(lines, l)
		}
	}
	return lines
}

// cached is slurm.conf as a configless slurmd got it from the controller.
const cached = "/run/slurm/conf/slurm.conf"

// Places returns where slurm.conf is: packages' and, of a configless slurmd, its cache.
func Places() []string {
	return []string{"/etc/slurm/slurm.conf", cached, "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"}
}

// FromController tells whether slurmd got slurm.conf from the controller (configless). It keeps such a file in
// SlurmdSpoolDir/conf-cache, with a link in /run, and overwrites it (Slurm src/slurmd/slurmd/slurmd.c).
func FromController(file string) bool {
	return strings.HasPrefix(file, "/run/") || path.Base(path.Dir(file)) == "conf-cache"
}

// Other returns the slurm.conf that a configless slurmd has beside the one that commands find, if the two differ.
// It is empty otherwise, and if somebody says the file.
func Other(root fs.FS, said string) string {
	file := Find(root, said)
	if said != "" || file == cached || !Exists(root, cached) {
		return ""
	}
	theirs, err := fs.ReadFile(root, strings.TrimPrefix(cached, "/"))
	ours, errOurs := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err == nil && errOurs == nil && bytes.Equal(ours, theirs) {
		return ""
	}
	return cached
}

// Find returns slurm.conf: the file that somebody says, or else the first of Places that is there. It is empty
// if there is none.
func Find(root fs.FS, said string) string {
	for _, place := range Places() {
		if said == "" && Exists(root, place) {
			said = place
		}
	}
	return said
}

// ControllerAddrs returns the names and addresses by which nodes reach slurmctld, with the
// keys that say them.
func (c Conf) ControllerAddrs() []Pair {
	var all []Pair
	for _, l := range c.All("slurmctldhost") {
		host, addr, _ := strings.Cut(l.Keys[0].Value, "(") // host(address)
		all = append(all, Pair{Key: "SlurmctldHost", Value: cmp.Or(strings.TrimSuffix(addr, ")"), host)})
	}
	for _, old := range []struct{ host, addr string }{{"ControlMachine", "ControlAddr"}, {"BackupController", "BackupAddr"}} {
		if value := cmp.Or(c.Last(strings.ToLower(old.addr)), c.Last(strings.ToLower(old.host))); value != "" {
			all = append(all, Pair{Key: old.host, Value: value})
		}
	}
	if value := c.Last("slurmctldaddr"); value != "" {
		all = append(all, Pair{Key: "SlurmctldAddr", Value: value})
	}
	return all
}

// Controllers returns the hosts that slurmctld runs on.
func (c Conf) Controllers() []string {
	var hosts []string
	for _, key := range []string{"slurmctldhost", "controlmachine"} {
		for _, l := range c.All(key) {
			host, _, _ := strings.Cut(l.Keys[0].Value, "(") // host(address)
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// maxDepth bounds files that include one another.
const maxDepth = 16

// Read reads a file as Slurm reads it. root is the file system that name, an absolute path, is of. What
// Slurm does not understand is an error with its place.
func Read(root fs.FS, name string) (Conf, error) {
	r := reader{root: root, dir: path.Dir(name)}
	err := r.read(name, 0)
	return r.conf, err
}

// reader reads a file with all that it includes.
type reader struct {
	root fs.FS
	dir  string // of the first file
	conf Conf   // what is read so far
}

func (r *reader) read(name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("read %s: files include one another more than %d deep", name, maxDepth)
	}
	inRoot := cmp.Or(strings.TrimPrefix(path.Clean(name), "/"), ".")
	if info, err := fs.Stat(r.root, inRoot); err == nil && info.IsDir() {
		return nil // Slurm reads a folder as an empty file
	}
	text, err := fs.ReadFile(r.root, inRoot)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	f, err := ParseFile(name, string(text))
	if err != nil {
		return err
	}
	for _, l := range f.Lines {
		if l.Include == "" {
			r.conf = append(r.conf, l)
			continue
		}
		file, err := r.find(l)
		if err != nil {
			return l.fault(err)
		}
		if err := r.read(file, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// find returns the path of an included file. %c in its name is the cluster's, as far as the file has said
// it. It is relative to the first file, and before Slurm 23.02 to the file that includes it
// (src/common/parse_config.c:_parse_include_directive).
func (r *reader) find(l Line) (string, error) {
	file := l.Include
	if strings.Contains(file, "%c") {
		cluster := strings.ToLower(r.conf.Last("clustername"))
		if cluster == "" {
			return "", fmt.Errorf("include %s: no ClusterName is before it", file)
		}
		file = strings.ReplaceAll(file, "%c", cluster)
	}
	if strings.Contains(file, "*") {
		return "", fmt.Errorf("include %s: Slurm takes no patterns", file)
	}
	if path.IsAbs(file) {
		return file, nil
	}
	now, before := path.Join(r.dir, file), path.Join(path.Dir(l.File), file)
	switch is := Exists(r.root, before); {
	case now == before || !is:
		return now, nil
	case Exists(r.root, now):
		return "", fmt.Errorf("include %s: that is %s to Slurm since 23.02, and %s before", file, now, before)
	}
	return before, nil
}

// File is one file as Slurm divides it into lines.
type File struct {
	Text  string
	Lines []Line
	open  bool // the last line goes on at the file's end
}

// ParseFile parses a file's text. It does not read what the file includes.
func ParseFile(name, text string) (File, error) {
	f := File{Text: text}
	for _, s := range statements(text) {
		l := Line{File: name, Number: s.number}
		file, rest, include := s.included()
		var err error
		switch {
		case include && file == "":
			err = errors.New("include names no file")
		case include && strings.Trim(rest, spaces) != "":
			err = errors.New("include takes one file")
		case include && rest == "" && s.end() < len(text):
			err = fmt.Errorf("include %s: put a space after the name: Slurm reads beyond it", file)
		case include:
			l.Include = file
		default:
			l.Keys, err = s.pairs()
		}
		if err != nil {
			return f, l.fault(err)
		}
		if l.Include != "" || len(l.Keys) > 0 {
			f.Lines = append(f.Lines, l)
		}
		f.open = s.open
	}
	return f, nil
}
