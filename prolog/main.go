// Command gresnet-prolog gives a Slurm job its own HCAs. slurmd runs it as
// root before the job's first step, as Prolog= of slurm.conf.
package main

import (
	"context"
	"os"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/cli"
	"gresnet/lib/config"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/lease"
)

func main() { os.Exit(run(cli.Outside())) }

func run(w *cli.World) int {
	return w.Run(&urfave.App{
		Name:  "gresnet-prolog",
		Usage: "give a Slurm job its own RDMA devices",
		Description: `Without arguments it is slurmd's Prolog. It reads the job from the
environment (SLURM_JOB_ID, SLURM_JOB_UID, …), claims the HCAs that the job is
entitled to, and moves them into a network namespace of the job's own.

Exit status: 0 done; 1 failed, and the node is as it was; 2 failed, and
something remains to be undone.

Example, in slurm.conf:
  Prolog=/usr/sbin/gresnet-prolog
  Epilog=/usr/sbin/gresnet-epilog
  PrologFlags=Contain`,
		Action:   func(c *urfave.Context) error { return take(w, c) },
		Commands: []*urfave.Command{statusCommand(w), scanCommand(w), planCommand(w), checkCommand(w), closeCommand(w), setupCommand(w)},
	})
}

func take(w *cli.World, c *urfave.Context) error {
	if err := cli.Alone(c); err != nil {
		return err
	}
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		return err
	}
	j, err := job.FromEnv(w.Getenv)
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	err = w.Record(c, cfg, "prolog", func(h *host.Host) error {
		n := lease.On(h)
		n.Undo = cfg.Deadline.Prolog / 2
		ctx, cancel := context.WithTimeout(c.Context, cfg.Deadline.Prolog-n.Undo)
		defer cancel()
		return n.Take(ctx, j)
	})
	sayWhy(c.Context, w, cfg, j, err)
	return err
}
