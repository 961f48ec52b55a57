// Command gresnet-epilog gives the node back what gresnet-prolog gave a Slurm
// job. slurmd runs it as root after the job's last step, as Epilog= of slurm.conf.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"gresnet/lib/config"
	"gresnet/lib/door"
	"gresnet/lib/job"
	"gresnet/lib/lease"
)

func main() { os.Exit(run(door.Outside())) }

func run(w *door.World) int {
	return w.Run(&cli.App{
		Name:  "gresnet-epilog",
		Usage: "give a Slurm job's RDMA devices back to the node",
		Description: `Without arguments it is slurmd's Epilog: it reads the job from the environment
(SLURM_JOB_ID) and undoes what gresnet-prolog did for it. A job that has no
lease on this node is success. It needs no configuration and no slurmctld.

Exit status: 0 done; 2 something remains to be undone: the HCAs that are not
home are kept from later jobs, and running it again goes on; 1 nothing was
done (bad usage, not root).

Example, by hand for job 4711:
  SLURM_JOB_ID=4711 gresnet-epilog`,
		Action:   func(c *cli.Context) error { return give(w, c) },
		Commands: []*cli.Command{sweepCommand(w), releaseCommand(w)},
	})
}

func give(w *door.World, c *cli.Context) error {
	if err := door.Alone(c); err != nil {
		return err
	}
	j, err := job.Ended(w.Getenv)
	if err != nil {
		return err
	}
	if err := door.Root(); err != nil {
		return err
	}
	run := &j.Run
	if w.Getenv("SLURM_JOB_RESTART_COUNT") == "" {
		run = nil // a person, who means the lease that is there; slurmd always says which run
	}
	n := node(w, c)
	ctx, cancel := context.WithTimeout(c.Context, n.Undo)
	defer cancel()
	return n.Give(ctx, j.ID, run)
}

// node is the node that an epilog works on. The lease says all that there is to
// undo; of the configuration only the deadline is of use, and one that cannot be
// read must not keep a job's HCAs from coming home.
func node(w *door.World, c *cli.Context) *lease.Node {
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: warning: %s; going on with the defaults\n", c.App.Name, err)
		cfg = config.Default()
	}
	n := w.Node(c, config.Config{})
	n.Undo = cfg.Deadline.Epilog
	return n
}
