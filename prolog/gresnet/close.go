package main

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
	"gresnet/lib/lease"
)

func closeCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "close",
		Usage: "close the HCAs' device nodes to everybody but root",
		Description: `Does what each prolog does first. With host = "closed" in [access] of
gresnet.toml it closes device nodes to everybody but root: uverbs, umad and
issm of the HCAs that jobs can have, rdma_cm, and the folder /dev/infiniband.
udev runs it when there are new device nodes. With host = "open", the
default, it only opens the folder again if gresnet had closed it.

Example:
  gresnet close`,
		Action: func(c *urfave.Context) error {
			if err := alone(c); err != nil {
				return err
			}
			cfg, err := cli.Site(c)
			if err != nil {
				return err
			}
			n := lease.On(w.Host(c, cfg))
			if n.State.IsUndone() {
				return hint.With(errors.New("close device nodes: setup --undo has opened them to users again"), "GN437 gresnet setup sets the node up again")
			}
			return n.RestrictNodes(c.Context)
		},
	}
}
