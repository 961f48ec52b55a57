package slurm

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Glob returns the files of a pattern in the order in which slurmd runs them, from Z to A and from 9 to
// 0 (Slurm src/plugins/prep/script/prep_script_slurmd.c:_script_list_create).
func Glob(root fs.FS, pattern, dir string) []string {
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	names, err := fs.Glob(root, strings.TrimPrefix(path.Clean(pattern), "/"))
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return isHidden(name, pattern) })
	slices.Reverse(names)
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names
}

// isHidden tells whether a file begins with a dot that its pattern does not say: glob(3) leaves it out.
func isHidden(name, pattern string) bool {
	return path.Base(name)[0] == '.' && path.Base(pattern)[0] != '.'
}

// IsPattern tells whether a path of a script is a pattern of several.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Call is what a script's text tells of whether it calls a program and ends with its exit code.
type Call int

// What a text tells: without a run no more is known.
const (
	Silent   Call = iota // it does not name the program, though what it calls may
	Mentions             // it names the program somewhere
	Calls                // it is the program, or does nothing else
)

// Guard returns the line by which a script that all hosts have alike does nothing on a host without gresnet.
func Guard(program string) string {
	return "[ -e " + program + " ] || [ -e " + NodeStack + " ] || exit 0"
}

// maxScript bounds what is read of a script.
const maxScript = 256 << 10

// CallOf reads what a file tells of its call of a program.
func CallOf(root fs.FS, file, program string) Call {
	if to, err := fs.ReadLink(root, strings.TrimPrefix(file, "/")); path.Base(file) == program || err == nil && path.Base(to) == program {
		return Calls
	}
	text, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err != nil || len(text) > maxScript || !strings.Contains(string(text), program) {
		return Silent
	}
	var code []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != Guard("/usr/sbin/"+program) {
			code = append(code, strings.TrimPrefix(line, "exec "))
		}
	}
	if len(code) == 1 && path.IsAbs(code[0]) && path.Base(code[0]) == program && Exists(root, code[0]) {
		return Calls
	}
	return Mentions
}

// Exists tells whether a file is there.
func Exists(root fs.FS, file string) bool {
	_, err := fs.Stat(root, strings.TrimPrefix(path.Clean(file), "/"))
	return err == nil
}
