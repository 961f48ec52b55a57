// Package nhc reads the files of LBNL's Node Health Check as NHC itself reads them: which lines of
// nhc.conf are for a host, which commands a line has, and what a check's function says. NHC is a
// script of bash's, so bash is asked which hosts a line is for. What is here follows nhc 1.4.3.
package nhc

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Files says what NHC reads on a node, from the name of its program and the settings of its
// sysconfig file (nhc, nhcmain_finalize_env).
type Files struct {
	Conf    string // nhc.conf
	Scripts string // the folder of the checks
	Host    string // the name that lines are for
}

// Find finds the files of a program.
func Find(root fs.FS, program string) Files {
	name := path.Base(program)
	if name == "nhc-wrapper" {
		name = "nhc"
	}
	host, _ := fs.ReadFile(root, "proc/sys/kernel/hostname")
	set := settings(root, name)
	set["HOSTNAME"] = cmp.Or(set["HOSTNAME"], strings.TrimSpace(string(host)))
	dir := cmp.Or(set["CONFDIR"], "/etc/nhc")
	return Files{Conf: cmp.Or(set["CONFFILE"], path.Join(dir, name+".conf")), Scripts: cmp.Or(set["INCDIR"], path.Join(dir, "scripts")), Host: set["HOSTNAME"]}
}

var setting = regexp.MustCompile(`(?m)^\s*(?:export\s+)?([A-Z_]+)=["']?([^"'\s;#$]*)`)

// settings reads what a sysconfig file sets.
func settings(root fs.FS, name string) map[string]string {
	dir := "etc/default"
	if _, err := fs.Stat(root, "etc/debian_version"); err != nil {
		if _, err := fs.Stat(root, "etc/sysconfig"); err == nil {
			dir = "etc/sysconfig"
		}
	}
	set := map[string]string{}
	text, _ := fs.ReadFile(root, path.Join(dir, name))
	for _, m := range setting.FindAllStringSubmatch(string(text), -1) {
		set[m[1]] = m[2]
	}
	return set
}

// Line is a line of nhc.conf that is for a host, or may be.
type Line struct {
	Number int
	Check  string
}

// Lines returns the lines of nhc.conf for a host (nhc_load_conf).
func Lines(text, host string) []Line {
	var all []Line
	var targets []string
	for number, line := range read(text) {
		target, check, found := strings.Cut(line, "||")
		if !found {
			check = target // NHC has it so
		}
		target, check = trim(target), trim(check)
		if target == "" || target[0] == '#' || check == "" {
			continue
		}
		all, targets = append(all, Line{number, check}), append(targets, target)
	}
	var list []Line
	for i, means := range matches(host, targets) {
		if means {
			list = append(list, all[i])
		}
	}
	return list
}

// trim takes blanks away as NHC does, which leaves one that is alone.
func trim(s string) string {
	const blanks = " \t"
	if strings.Trim(s, blanks) == "" && len(s) == 1 {
		return s
	}
	return strings.Trim(s, blanks)
}

// read yields the lines of a text, with their numbers, as bash's read does: a backslash before a
// newline joins two lines, and any other goes away. A last line without a newline is none.
func read(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		var line []byte
		number, begin := 1, 1
		kept := 0 // blanks that are escaped stay
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '\\' && i+1 < len(text):
				if i++; text[i] == '\n' {
					number++
					continue
				}
				line = append(line, text[i])
				kept = len(line)
			case c == '\n':
				whole := string(line[:kept]) + strings.TrimRight(string(line[kept:]), " \t")
				if !yield(begin, whole) {
					return
				}
				number++
				line, kept, begin = nil, 0, number
			case (c == ' ' || c == '\t') && len(line) == 0:
			default:
				line = append(line, c)
			}
		}
	}
}
