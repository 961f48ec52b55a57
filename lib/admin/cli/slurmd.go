package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/state"
)

// given are the flags of a program of slurmd's.
type given map[string]string

func (g given) String(name string) string {
	if value, is := g[name]; is {
		return value
	}
	return map[string]string{"config": ConfigFile, "state": StateDir}[name]
}
func (g given) Bool(name string) bool  { return g.IsSet(name) }
func (g given) IsSet(name string) bool { _, is := g[name]; return is }

// ServeSlurmd runs a program that slurmd calls and returns its exit code. The program knows --config,
// --state and --trace, and says with --help and --version what it is.
func (w *World) ServeSlurmd(name, about string, call func(Flags) error) int {
	return w.Run(name, func() error {
		flags, known := parse(w.Args[1:])
		switch {
		case !known:
			return hint.With(fmt.Errorf("%s does not know the arguments %q", name, w.Args[1:]), "GN867 see --help; commands are those of gresnet")
		case flags.IsSet("help"):
			_, err := fmt.Fprintf(w.Stdout, "NAME:\n   %s - %s\n%s", name, about, flagsHelp)
			return err
		case flags.IsSet("version"):
			_, err := fmt.Fprintf(w.Stdout, "%s version %s\n", name, version)
			return err
		}
		w.Changing()
		return call(flags)
	})
}

const flagsHelp = `
OPTIONS:
   --config FILE  configuration FILE (default: "` + ConfigFile + `")
   --state DIR    keep leases and the node lock in DIR (default: "` + StateDir + `")
   --trace        print each step and how long it took to stderr
   --help         show help
   --version      print the version
`

// parse reads flags. It returns false if there is anything else, or a flag that lacks its value or is
// there twice.
func parse(args []string) (flags given, known bool) {
	flags = given{}
	for len(args) > 0 {
		name, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-"), "=")
		if args[0] == name || flags.IsSet(name) {
			return nil, false
		}
		args = args[1:]
		switch name {
		case "config", "state":
			if !joined {
				if len(args) == 0 {
					return nil, false
				}
				value, args = args[0], args[1:]
			}
		case "h", "help", "v", "version":
			name = map[string]string{"h": "help", "v": "version"}[name[:1]]
			fallthrough
		case "trace":
			if joined {
				return nil, false
			}
		default:
			return nil, false
		}
		flags[name] = value
	}
	return flags, true
}

// places lists where a program of ours can be: beside this one, or where the package has it. Nobody's PATH
// decides what root runs.
func places(name string) []string {
	packaged := "/usr/sbin/" + name
	self, err := os.Executable()
	if err != nil {
		return []string{packaged}
	}
	return []string{filepath.Join(filepath.Dir(self), name), packaged}
}

// Beside returns the first of the places of a program of ours that has it, or the last of them.
func Beside(name string) string {
	all := places(name)
	for _, path := range all {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return all[len(all)-1]
}

// RecordOf returns the record of a run that ended with err.
func (w *World) RecordOf(j job.Job, err error) state.Record {
	s := state.Record{Exit: exitCode(err), Job: j.ID, Run: j.Run, Caller: state.FindCaller()}
	if err != nil {
		id, _ := hint.Cut(w.hint(err))
		s.Why = strings.ReplaceAll(err.Error(), "\n", "; ") + hint.Tag(id)
	}
	return s
}

// WarnUnrecorded warns of a record that a run which ended with err could not leave: the run counts all the same.
// A run that failed says itself why, and that is mostly why there is no record.
func (w *World) WarnUnrecorded(err, unrecorded error) {
	if err == nil && unrecorded != nil {
		fmt.Fprintf(w.Stderr, "%s: warning: %s\n", w.name, unrecorded)
	}
}
