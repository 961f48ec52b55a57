// Package slurm reads Slurm's own files, its configuration and its plugins: what a
// site told Slurm must fit what it told gresnet, and asking slurmctld would be an RPC.
package slurm

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Line is a line of slurm.conf or gres.conf: Key=Value pairs.
type Line struct {
	File   string
	Number int
	Keys   []Pair
}

// Pair is Key=Value. Slurm takes keys in any case; here they are lower case.
type Pair struct{ Key, Value string }

// Get is a key's value, empty if the line does not have it.
func (l Line) Get(key string) string {
	for _, p := range l.Keys {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// Conf is a configuration file with all that it includes.
type Conf []Line

// Last is the value of a key that the last line with it gives; Slurm warns of
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

// All are the lines that begin with a key.
func (c Conf) All(key string) []Line {
	var lines []Line
	for _, l := range c {
		if l.Keys[0].Key == key {
			lines = append(lines, l)
		}
	}
	return lines
}

// Places is where slurm.conf is: packages' and, of a configless slurmd, its cache.
func Places() []string {
	return []string{"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"}
}

// ControllerAddrs are the names and addresses by which nodes reach slurmctld, with the
// keys that say them.
func (c Conf) ControllerAddrs() []Pair {
	var all []Pair
	for _, l := range c.All("slurmctldhost") {
		host, addr, _ := strings.Cut(l.Keys[0].Value, "(") // host(address)
		all = append(all, Pair{"SlurmctldHost", cmp.Or(strings.TrimSuffix(addr, ")"), host)})
	}
	for _, old := range []struct{ host, addr string }{{"ControlMachine", "ControlAddr"}, {"BackupController", "BackupAddr"}} {
		if value := cmp.Or(c.Last(strings.ToLower(old.addr)), c.Last(strings.ToLower(old.host))); value != "" {
			all = append(all, Pair{old.host, value})
		}
	}
	if value := c.Last("slurmctldaddr"); value != "" {
		all = append(all, Pair{"SlurmctldAddr", value})
	}
	return all
}

// Controllers are the hosts that slurmctld runs on.
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
const maxDepth = 8

// Read reads a file. root is the file system that name, an absolute path, is of.
func Read(root fs.FS, name string) (Conf, error) { return read(root, name, 0) }

func read(root fs.FS, name string, depth int) (Conf, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("read %s: files include one another more than %d deep", name, maxDepth)
	}
	text, err := fs.ReadFile(root, strings.TrimPrefix(path.Clean(name), "/"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var conf Conf
	for number, text := range logical(string(text)) {
		if file, is := included(text); is {
			if !path.IsAbs(file) {
				file = path.Join(path.Dir(name), file)
			}
			more, err := read(root, file, depth+1)
			if err != nil {
				return nil, err
			}
			conf = append(conf, more...)
			continue
		}
		if pairs := parsePairs(text); len(pairs) > 0 {
			conf = append(conf, Line{File: name, Number: number, Keys: pairs})
		}
	}
	return conf, nil
}

// logical goes through a file's lines without comments, with their numbers; a
// line that ends with a backslash goes on in the next.
func logical(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		var whole strings.Builder
		first := 1
		number := 0
		for line := range strings.Lines(text) {
			number++
			line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), "#")
			if whole.Len() == 0 {
				first = number
			}
			start, goesOn := strings.CutSuffix(line, `\`)
			whole.WriteString(start)
			if goesOn {
				continue
			}
			if !yield(first, strings.TrimSpace(whole.String())) {
				return
			}
			whole.Reset()
		}
		if whole.Len() > 0 {
			yield(first, strings.TrimSpace(whole.String()))
		}
	}
}

func included(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) == 2 && strings.EqualFold(fields[0], "include") {
		return fields[1], true
	}
	return "", false
}

// parsePairs splits "Key=Value Key="a value"".
func parsePairs(line string) []Pair {
	var pairs []Pair
	for line != "" {
		key, rest, found := strings.Cut(line, "=")
		if !found {
			break
		}
		rest = strings.TrimLeft(rest, " \t")
		var value string
		if quoted, is := strings.CutPrefix(rest, `"`); is {
			value, rest, _ = strings.Cut(quoted, `"`)
		} else {
			end := strings.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			value, rest = rest[:end], rest[end:]
		}
		pairs = append(pairs, Pair{strings.ToLower(strings.TrimSpace(key)), value})
		line = strings.TrimSpace(rest)
	}
	return pairs
}
