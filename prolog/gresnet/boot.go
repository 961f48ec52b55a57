package main

import (
	"fmt"
	"io/fs"
	"os"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/lease"
	"gresnet/lib/lease/host"
)

func bootCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "boot",
		Usage: "ready the node before slurmd starts",
		Description: `Restores the leases that are left (cleanup --boot), sets the RDMA netns mode
of the configuration, if it has one, splits PFs into VFs, if it has any with
part = "vf", closes the HCAs' device nodes, if it wants that (gresnet
close), and makes the placeholders in /var/lib/gresnet/gres that gres.conf
names: a node without a disk lacks them.

The kernel refuses another mode while there is a network namespace besides
the first. boot tries for ten seconds, in case that namespace is just ending;
then it fails and says who has which.

It makes VFs only where a PF has none, and gives each an address that is the
same after each boot, unless it has one.

gresnet.service runs it. Do not run it while slurmd runs: it may take the
HCAs from jobs that are about to start.

Exit status: 0 done; 1 the mode or a PF is not what it should be, or
the configuration has an error; 2 something of a lease remains to be undone.

Example:
  gresnet boot`,
		Action: func(c *urfave.Context) error {
			if err := alone(c); err != nil {
				return err
			}
			if err := cli.Root(); err != nil {
				return err
			}
			cfg, broken := config.Load(c.String("config"), c.IsSet("config"))
			if broken != nil {
				cfg = config.Default() // leases are returned all the same,
				cfg.Access.Host = ""   // and nothing else is done that it may forbid
			}
			return hint.Join(broken, w.OnNode(c, cfg, "boot", func(n *lease.Host) error {
				return hint.Join(n.Boot(c.Context), readyPlaceholders(n.Host, os.DirFS("/")))
			}))
		},
	}
}

// readyPlaceholders makes the files that gres.conf names in gresnet's own folder. Where there is no
// gres.conf, slurmd fetches it later: then they are those that scan --gres-conf would name, as far as
// the HCAs are there by now.
func readyPlaceholders(n *host.Host, root fs.FS) error {
	files, known := report.NamedPlaceholders(root)
	if !known {
		inv, drift, err := inspect.Inventory(n)
		if hint.Join(drift, err) != nil {
			return nil // check says so, and a prolog
		}
		if files, err = inv.Placeholders(n.Config.Slurm.Gres); err != nil {
			return nil
		}
	}
	if err := report.MakePlaceholders(report.PlaceholderDir, files); err != nil {
		return hint.With(fmt.Errorf("make placeholder files: %w", err), "GN051 slurmd does not start without the files that gres.conf names: mount a file system there that can be written")
	}
	return nil
}
