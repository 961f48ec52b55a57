package slurm

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Glob is the files of a pattern in the order in which slurmd runs them, from Z to A and from 9 to
// 0 (Slurm src/plugins/prep/script/prep_script_slurmd.c:_script_list_create).
func Glob(root fs.FS, pattern, dir string) []string {
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	names, err := fs.Glob(root, strings.TrimPrefix(path.Clean(pattern), "/"))
	if err != nil {
		return nil
	}
	hidden := func(name string) bool { return path.Base(name)[0] == '.' && path.Base(pattern)[0] != '.' }
	names = slices.DeleteFunc(names, hidden)
	slices.Reverse(names)
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names
}

// IsPattern tells whether a path of a script is a pattern of several.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Call is how a script calls a program.
type Call struct {
	Text      string // the line that does; empty: none does
	Fault     string // why that does not do
	Do        string // what to do about it
	Commented string // FILE:LINE of a call that is a comment
	Opaque    string // a file that cannot be read as a script
}

// maxCalls bounds scripts that call one another, maxScript their size.
const (
	maxCalls  = 3
	maxScript = 256 << 10
)

// word is a path that a script may have: of a script or a folder of scripts.
var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/[A-Za-z0-9_.@+/*-]+`) })

// FindCall looks for a call of a program in a script, and in the scripts that it names.
func FindCall(root fs.FS, file, program string) Call { return callIn(root, file, program, 0) }

// callIn looks for a call of a program in a file, and in the files that it names.
func callIn(root fs.FS, file, program string, depth int) Call {
	if path.Base(file) == program || linksTo(root, file, program) {
		return Call{Text: file}
	}
	text, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err != nil || len(text) > maxScript || bytes.IndexByte(text, 0) >= 0 {
		return Call{Opaque: file}
	}
	// not as a part of another word
	calling := regexp.MustCompile(`(?:^|[\s;&|()"'=!{])((?:/[^\s;&|()"']*/)?` + regexp.QuoteMeta(program) + `)(?:$|[\s;&|()"'}])`)
	var c Call
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		code, comment := uncomment(strings.TrimRight(line, "\n"))
		if m := calling.FindStringSubmatch(code); m != nil {
			return judge(root, Call{Text: code}, fmt.Sprintf("%s:%d", file, number), m[1])
		}
		if c.Commented == "" && calling.MatchString(comment) {
			c.Commented = fmt.Sprintf("%s:%d", file, number)
		}
		if depth >= maxCalls {
			continue
		}
		for _, name := range word().FindAllString(code, -1) {
			if inner := callBelow(root, name, program, depth+1); inner.Text != "" {
				return inner
			}
		}
	}
	return c
}

// callBelow looks in a file, in the files of a folder, or in those of a pattern.
func callBelow(root fs.FS, name, program string, depth int) Call {
	for _, bin := range []string{"/bin/", "/usr/bin/", "/sbin/", "/dev/", "/proc/", "/sys/"} {
		if strings.HasPrefix(name, bin) {
			return Call{}
		}
	}
	info, err := fs.Stat(root, strings.Trim(path.Clean(name), "/"))
	if err == nil && info.IsDir() {
		name += "/*"
	}
	for _, file := range Glob(root, name, "/") {
		info, err := fs.Stat(root, strings.TrimPrefix(file, "/"))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if c := callIn(root, file, program, depth); c.Text != "" {
			return c
		}
	}
	return Call{}
}

// judge says what is wrong with a line that has a call.
func judge(root fs.FS, c Call, where, called string) Call {
	code := strings.TrimSpace(c.Text)
	switch {
	case path.IsAbs(called) && !exists(root, called):
		c.Fault, c.Do = fmt.Sprintf("%s calls %s, which is not there", where, called), "GN018 correct the path: command -v "+path.Base(called)
	case regexp.MustCompile(`\|\|\s*(true|:|exit 0)\b`).MatchString(code+" ") || strings.HasSuffix(code, "|| :"):
		c.Fault, c.Do = where+" throws the exit code of "+called+" away: a job whose HCAs cannot be had runs all the same", "GN019 leave out what is after ||"
	case strings.HasSuffix(code, "&") && !strings.HasSuffix(code, "&&"):
		c.Fault, c.Do = where+" does not wait for "+called+": the job starts before its HCAs are there", "GN020 leave out the &"
	}
	return c
}

// uncomment divides a line of a shell script where its comment begins.
func uncomment(line string) (code, comment string) {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t' || line[i-1] == ';') {
			return line[:i], line[i+1:]
		}
	}
	return line, ""
}

// linksTo tells whether a file is a symbolic link to a program.
func linksTo(root fs.FS, file, program string) bool {
	to, err := fs.ReadLink(root, strings.TrimPrefix(file, "/"))
	return err == nil && path.Base(to) == program
}

func exists(root fs.FS, file string) bool {
	_, err := fs.Stat(root, strings.TrimPrefix(file, "/"))
	return err == nil
}
