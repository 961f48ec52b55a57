package main

import (
	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/cli"
)

func closeCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "close",
		Usage: "close the HCAs' device nodes to everybody but root",
		Description: `Does what each prolog does first: with host = "closed" in [access] of the
configuration, which is the default, the node's uverbs, umad and issm
devices of the HCAs that jobs can have become root's alone, and so do
rdma_cm and the folder /dev/infiniband. udev runs it when there are new
ones. With host = "open" it opens the folder, if it was closed so.

Example:
  gresnet-prolog close`,
		Action: func(c *urfave.Context) error {
			if err := cli.Alone(c); err != nil {
				return err
			}
			cfg, err := cli.Site(c)
			if err != nil {
				return err
			}
			return w.Host(c, cfg).Close()
		},
	}
}
