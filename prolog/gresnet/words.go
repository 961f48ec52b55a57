package main

import (
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/people/cli"
	"gresnet/lib/words/hint"
)

// addWords gives the application its commands help and version.
func addWords(w *cli.World, app *urfave.App) {
	app.Commands = append(app.Commands,
		&urfave.Command{
			Name: "help", Usage: "show help, of COMMAND if that is given", ArgsUsage: "[COMMAND]",
			Description: "Shows what --help shows.",
			Action:      func(c *urfave.Context) error { return showHelp(app, c) },
		},
		&urfave.Command{
			Name: "version", Usage: "print the version",
			Description: "Prints what --version prints.",
			Action: func(c *urfave.Context) error {
				if err := alone(c); err != nil {
					return err
				}
				_, err := fmt.Fprintf(w.Stdout, "%s version %s\n", app.Name, cli.Version())
				return err
			},
		})
}

// alone refuses arguments that a command does not know.
func alone(c *urfave.Context) error {
	if !c.Args().Present() {
		return nil
	}
	name := c.App.Name + " " + c.Command.Name
	return hint.With(fmt.Errorf("%s takes no arguments: %q", name, c.Args().First()), "GN134 see "+name+" --help")
}

// oneOf refuses flags that exclude each other.
func oneOf(c *urfave.Context, names ...string) error {
	var given []string
	for _, name := range names {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) < 2 {
		return nil
	}
	return hint.With(fmt.Errorf("%s exclude each other", strings.Join(given, " and ")), "GN135 give one of them")
}

func showHelp(app *urfave.App, c *urfave.Context) error {
	switch name := c.Args().First(); {
	case c.Args().Len() > 1:
		return hint.With(fmt.Errorf("help is of one command: %s", strings.Join(c.Args().Slice(), " ")), "GN137 see "+app.Name+" --help")
	case name == "":
		return app.Run([]string{app.Name, "--help"})
	case app.Command(name) == nil:
		return unknown(c, name)
	default:
		return app.Run([]string{app.Name, name, "--help"})
	}
}

// unknown says of a command that is not known which may be meant.
func unknown(c *urfave.Context, name string) error {
	var known []string
	for _, command := range c.App.Commands {
		known = append(known, command.Name)
	}
	err := fmt.Errorf("unknown command %q", name)
	if near := hint.Nearest(name, known); near != "" {
		return hint.With(err, fmt.Sprintf("GN138 did you mean %s %s?", c.App.Name, near))
	}
	return hint.With(err, "GN139 see "+c.App.Name+" --help")
}

// usageError says of a command that was called wrongly what may be meant, or where it says how.
func usageError(command string, flags func() []urfave.Flag) urfave.OnUsageErrorFunc {
	return func(_ *urfave.Context, err error, _ bool) error {
		_, text, _ := strings.Cut(err.Error(), "invalid value ")
		if value, name, is := strings.Cut(text, " for flag -"); is {
			name, _, _ = strings.Cut(name, ": ")
			return hint.With(fmt.Errorf("flag --%s cannot be %s", name, value), "GN438 give what "+command+" --help shows")
		}
		_, given, is := strings.Cut(err.Error(), "flag provided but not defined: -")
		if !is {
			return hint.With(err, "GN140 see "+command+" --help")
		}
		given = strings.TrimLeft(given, "-")
		var known []string
		for _, f := range flags() {
			known = append(known, f.Names()...)
		}
		if near := hint.Nearest(given, known); near != "" {
			return hint.With(errors.New("unknown flag --"+given), fmt.Sprintf("GN141 did you mean --%s?", near))
		}
		return hint.With(errors.New("unknown flag --"+given), "GN142 see "+command+" --help")
	}
}

// arrange puts the application's own flags before the command, and the command's before its
// arguments, wherever they were given: the library looks for them there alone.
func arrange(app *urfave.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	given := map[urfave.Flag]bool{}
	var own, flags, rest []string
	command := &urfave.Command{}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if len(rest) == 0 && app.Command(arg) != nil {
				command = app.Command(arg)
			}
			rest = append(rest, arg)
			continue
		}
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		of, to, whose := find(app.Flags, name), &own, app.Name
		if len(rest) > 0 && (of == nil || of == urfave.HelpFlag) {
			of, to, whose = find(command.Flags, name), &flags, app.Name+" "+command.Name
		}
		if of != nil && given[of] {
			return nil, hint.With(fmt.Errorf("flag --%s is there twice", name), "GN143 give it once")
		}
		given[of] = true
		*to = append(*to, arg)
		if takes, is := of.(urfave.DocGenerationFlag); is && takes.TakesValue() && !joined {
			if i++; i == len(args) {
				return nil, hint.With(errors.New("flag --"+name+" needs a value"), "GN351 see "+whose+" --help")
			}
			*to = append(*to, args[i])
		}
	}
	arranged := append([]string{args[0]}, own...)
	if len(rest) > 0 {
		arranged = append(append(arranged, rest[0]), flags...)
		rest = rest[1:]
	}
	return append(arranged, rest...), nil
}

func find(flags []urfave.Flag, name string) urfave.Flag {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}
