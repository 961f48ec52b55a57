package slurm

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
)

// NodeStack is the file by which a node's plugstack.conf, which hosts without gresnet may have, too, comes to the
// line for the plugin. Slurm takes an include of a file that is not there for none.
const NodeStack = "/etc/gresnet/plugstack.conf"

// Plugstack returns the path of plugstack.conf, if slurm.conf is in a folder.
func (c Conf) Plugstack(dir string) string {
	return cmp.Or(c.Last("plugstackconfig"), path.Join(dir, "plugstack.conf"))
}

// Joined fails if slurmd starts tasks without gresnet's plugin, or with one that may fail: tasks of a job with
// a lease would run in the node's network, with no HCA or with all. conf is the path of slurm.conf.
func Joined(root fs.FS, conf string) error {
	const do = "GN860 gresnet setup, then restart slurmd: see gresnet check"
	c, err := Read(root, conf)
	if err != nil {
		return hint.With(fmt.Errorf("find gresnet's plugin: %w", err), "GN861 correct what Slurm does not read: gresnet check")
	}
	file := c.Plugstack(path.Dir(conf))
	lines, err := ReadPlugstack(root, file)
	if err != nil {
		return hint.With(fmt.Errorf("find gresnet's plugin: %w", err), do)
	}
	i := slices.IndexFunc(lines, func(l StackLine) bool { return l.Is("gresnet") })
	switch {
	case i < 0:
		return hint.With(fmt.Errorf("find gresnet's plugin: %s does not have it, and tasks would not be in their job", file), do)
	case lines[i].Need != "required":
		return hint.With(fmt.Errorf("find gresnet's plugin: %s has %q, and where it fails tasks are not in their job", file, lines[i]), "GN862 write required in place of "+lines[i].Need)
	}
	return nil
}

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
