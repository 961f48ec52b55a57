package main

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
	"gresnet/lib/lease"
)

func releaseCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "release",
		Usage:     "let jobs have a quarantined HCA again",
		ArgsUsage: "HCA",
		Description: `Undoes what can still be undone. If the HCA is in the root namespace then,
jobs can have it again, as it is. HCA is the name of the RDMA device, its
node GUID, its PCI address, or its whole identity as status prints it.

Exit status: 0 jobs can have it; 1 nothing was done; 2 it was not returned.

Example:
  gresnet release mlx5_3`,
		Action: func(c *urfave.Context) error {
			if c.NArg() != 1 {
				return hint.With(errors.New("release takes one HCA"), "GN052 gresnet status lists them")
			}
			if err := cli.Root(); err != nil {
				return err
			}
			return w.OnNode(c, w.Lenient(c), "release", func(n *lease.Host) error { return n.Release(c.Context, c.Args().First()) })
		},
	}
}
