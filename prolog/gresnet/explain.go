package main

import (
	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
)

func explainCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "explain",
		Usage:     "say what messages mean and what to do, by their ids",
		ArgsUsage: "[ID...]",
		Description: `Prints the message that has the id, and what to do about it. The id is at
the end of a line of gresnet's, in the journal's field GRESNET_ID, and at the
beginning of a drained node's reason. In a message … stands for what the
program fills in. Without an id it lists all messages.

Examples:
  gresnet explain GN009
  gresnet explain | grep -i overlay`,
		Action: func(c *urfave.Context) error { return hint.Explain(w.Stdout, c.Args().Slice()) },
	}
}
