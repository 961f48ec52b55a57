// Command gresnet is for people, units and rules of udev: it shows what a node's HCAs are at, sets the
// node up, and fixes it. slurmd runs gresnet-prolog and gresnet-epilog instead.
//
// github.com/urfave/cli is imported as urfave.
package main

import (
	"errors"
	"os"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
)

func main() { os.Exit(run(cli.Outside())) }

func run(w *cli.World) int {
	return w.Run("gresnet", func() error { return call(w, application(w)) })
}

// application returns the command line.
func application(w *cli.World) *urfave.App {
	return &urfave.App{
		Name:  "gresnet",
		Usage: "show, set up and repair RDMA devices of Slurm jobs",
		Description: `gresnet gives each Slurm job a network namespace with its own HCAs in it.
slurmd does that by itself: it runs gresnet-prolog before a job's first step
and gresnet-epilog after its last one. This program is for people.

Exit status: 0 done; 1 failed, and the HCAs are as they were; 2 failed, and
something remains to be undone.

Begin with:
  gresnet try                 whether this node's HCAs go into a job and back
  gresnet setup --dry-run     what a node needs
  gresnet check               what would go wrong
  gresnet status              who has which HCA`,
		Commands: []*urfave.Command{
			statusCommand(w), scanCommand(w), planCommand(w), checkCommand(w), explainCommand(w), metricsCommand(w), tryCommand(w), setupCommand(w),
			cleanupCommand(w), releaseCommand(w), closeCommand(w), bootCommand(w),
		},
	}
}

// call does what the arguments say.
func call(w *cli.World, app *urfave.App) error {
	app.Version = cli.Version()
	app.Action = func(c *urfave.Context) error {
		switch {
		case c.Args().Present():
			return unknown(c, c.Args().First())
		case len(w.Args) > 1:
			return hint.With(errors.New("a command is missing"), "GN580 see "+app.Name+" --help")
		}
		return urfave.ShowAppHelp(c)
	}
	app.Writer, app.ErrWriter = w.Stdout, w.Stderr
	app.HideHelpCommand = true
	app.ExitErrHandler = func(*urfave.Context, error) {}
	addWords(w, app)
	app.OnUsageError = usageError(app.Name)
	for _, command := range app.Commands {
		command.OnUsageError = usageError(app.Name + " " + command.Name)
		command.Flags, command.Before = append(command.Flags, hidden()...), inherit
		command.HideHelpCommand = true
		action := command.Action
		command.Action = func(c *urfave.Context) error {
			if slices.Contains(changing, command.Name) {
				w.Changing()
			}
			return action(c)
		}
	}
	app.Flags = append(everywhere(), urfave.HelpFlag, urfave.VersionFlag) // the library leaves help out where there is a command help
	completeWords(w, app)
	return app.Run(w.Args)
}

// changing are the commands that change the node.
var changing = []string{"cleanup", "boot", "release", "close", "setup", "try"}
