package main

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
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

// unknown refuses a command. It suggests none: what somebody did not mean might change the node.
func unknown(c *urfave.Context, name string) error {
	return hint.With(fmt.Errorf("unknown command %q", name), "GN139 see "+c.App.Name+" --help")
}

// usageError says where a command says how it is called.
func usageError(command string) urfave.OnUsageErrorFunc {
	return func(_ *urfave.Context, err error, _ bool) error {
		return hint.With(err, "GN140 see "+command+" --help")
	}
}

// everywhere returns the flags that can be given before the command, and among its own.
func everywhere() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "config", Usage: "configuration `FILE`", Value: cli.ConfigFile},
		&urfave.StringFlag{Name: "state", Usage: "keep leases and the node lock in `DIR`", Value: cli.StateDir},
		&urfave.BoolFlag{Name: "trace", Usage: "print each step and how long it took to stderr", DisableDefaultText: true},
	}
}

// hidden returns these flags as a command's own, whose help leaves them to that of the application.
func hidden() []urfave.Flag {
	return []urfave.Flag{&urfave.StringFlag{Name: "config", Value: cli.ConfigFile, Hidden: true},
		&urfave.StringFlag{Name: "state", Value: cli.StateDir, Hidden: true}, &urfave.BoolFlag{Name: "trace", Hidden: true}}
}

// inherit gives a command what was said before it.
func inherit(c *urfave.Context) error {
	app := c.Lineage()[1]
	for _, f := range everywhere() {
		name := f.Names()[0]
		if given := app.IsSet(name); given && !c.IsSet(name) {
			if err := c.Set(name, fmt.Sprint(app.Value(name))); err != nil {
				return err
			}
		}
	}
	return nil
}
