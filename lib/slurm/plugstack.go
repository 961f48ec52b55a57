package slurm

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// StackLine is a line of plugstack.conf.
type StackLine struct {
	Need      string // "required" or "optional"
	Plugin    string
	Arguments []string
}

// Is tells whether it is a plugin's line, by what the file is called.
func (l StackLine) Is(name string) bool { return strings.Contains(path.Base(l.Plugin), name) }

// String returns the line as it may be written.
func (l StackLine) String() string {
	return strings.Join(append([]string{l.Need, l.Plugin}, l.Arguments...), " ")
}

// ReadPlugstack reads the lines of a plugstack.conf, and of what it includes,
// that Slurm heeds (Slurm src/common/spank.c:_plugin_stack_parse_line,
// _spank_conf_include).
func ReadPlugstack(root fs.FS, file string) ([]StackLine, error) { return readPlugstack(root, file, 0) }

func readPlugstack(root fs.FS, file string, depth int) ([]StackLine, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("read %s: files include one another more than %d deep", file, maxDepth)
	}
	text, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var lines []StackLine
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "required", "optional":
			lines = append(lines, StackLine{fields[0], fields[1], fields[2:]})
		case "include":
			more, err := includedInStack(root, file, fields[1], depth)
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
	}
	return lines, nil
}

func includedInStack(root fs.FS, file, pattern string, depth int) ([]StackLine, error) {
	var lines []StackLine
	for _, name := range slices.Backward(Glob(root, pattern, path.Dir(file))) {
		more, err := readPlugstack(root, name, depth+1)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}
