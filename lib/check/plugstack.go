package check

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/slurm"
)

// plugstack must have the plugin, as one without which no task starts, with
// arguments that it knows, and built for the Slurm that loads it.
func (s Site) plugstack(conf slurm.Conf, dir string) []Finding {
	const about = "plugstack.conf"
	const do = "add the line: required spank_gresnet.so"
	file := conf.Last("plugstackconfig")
	if file == "" {
		file = path.Join(dir, about)
	}
	lines, err := s.plugins(file, 0)
	if err != nil {
		return []Finding{{Level: Error, About: about, Text: err.Error(), Do: do}}
	}
	i := slices.IndexFunc(lines, func(l stacked) bool { return l.is("gresnet") })
	if i < 0 {
		return []Finding{fail(about, do, "%s does not have gresnet's plugin: tasks would run in the node's network", file)}
	}
	line := lines[i]
	if line.need != "required" {
		return []Finding{fail(about, do, "%s is %s: where it fails, tasks run in the node's network", line.plugin, line.need)}
	}
	all := []Finding{s.line(line, conf)}
	if j := slices.IndexFunc(lines, func(l stacked) bool { return l.is("pyxis") }); j >= 0 && j < i {
		all = append(all, warn(about, "put gresnet's line before it", "%s comes before %s: containers are made in the node's network", lines[j].plugin, line.plugin))
	}
	dirs, said := s.pluginDirs(conf, dir)
	return append(all, s.plugin(line.plugin, dirs, said))
}

// stacked is a line of plugstack.conf.
type stacked struct {
	need      string // "required" or "optional"
	plugin    string
	arguments []string
}

func (l stacked) is(name string) bool { return strings.Contains(path.Base(l.plugin), name) }

// String is the line as it may be written.
func (l stacked) String() string {
	return strings.Join(append([]string{l.need, l.plugin}, l.arguments...), " ")
}

// arguments are those that the plugin knows (spank/arguments.c), but state=DIR.
func arguments() []string {
	return []string{"steps", "batch", "all", "pmix=relay", "pmix=off", "notice=on", "notice=off", "allow=none"}
}

// line checks what the line says to the plugin.
func (s Site) line(l stacked, conf slurm.Conf) Finding {
	const about = "plugstack.conf"
	state, relay := "/run/gresnet", true
	for _, a := range l.arguments {
		dir, is := strings.CutPrefix(a, "state=")
		switch {
		case is && path.IsAbs(dir):
			state = dir
		case !slices.Contains(arguments(), a):
			return fail(about, "leave it out, or say one of "+strings.Join(arguments(), ", ")+", state=DIR", "the plugin does not know %q: no task starts", a)
		case strings.HasPrefix(a, "pmix="):
			relay = a == "pmix=relay"
		}
	}
	contained := strings.Contains(strings.ToLower(conf.Last("slurmdparameters")), "contain_spank")
	switch {
	case path.Clean(state) != path.Clean(s.State):
		return fail(about, "have them say the same", "the plugin looks for leases in %s, and they are in %s: tasks would run in the node's network", state, s.State)
	case relay && contained:
		return fail(about, "add pmix=off to the line, or take contain_spank out of SlurmdParameters", "with contain_spank in SlurmdParameters, PMIx cannot be relayed")
	case !relay && strings.HasPrefix(conf.Last("mpidefault"), "pmix"):
		return warn(about, "leave pmix=off out", "MpiDefault=%s, and %s keeps PMIx from reaching its server", conf.Last("mpidefault"), l)
	}
	return ok(about, "%s", l)
}

// plugins are the lines of a plugstack.conf and of what it includes that Slurm
// heeds (Slurm src/common/spank.c:_plugin_stack_parse_line, _spank_conf_include).
func (s Site) plugins(file string, depth int) ([]stacked, error) {
	const deepest = 8
	if depth > deepest {
		return nil, fmt.Errorf("read %s: files include one another", file)
	}
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var lines []stacked
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "required", "optional":
			lines = append(lines, stacked{fields[0], fields[1], fields[2:]})
		case "include":
			more, err := s.included(file, fields[1], depth)
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
	}
	return lines, nil
}

func (s Site) included(file, pattern string, depth int) ([]stacked, error) {
	from := pattern
	if !path.IsAbs(from) {
		from = path.Join(path.Dir(file), from)
	}
	names, err := fs.Glob(s.Root, strings.TrimPrefix(from, "/"))
	if err != nil {
		return nil, fmt.Errorf("read %s: include %s: %w", file, pattern, err)
	}
	var lines []stacked
	for _, name := range names {
		more, err := s.plugins("/"+name, depth+1)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}
