package main

import (
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/hint"
	"gresnet/lib/lease"
)

func cleanupCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "cleanup",
		Usage:     "restore the leases of jobs that are gone",
		ArgsUsage: "[JOBID...]",
		Description: `Does for each job that is gone what its epilog would have done, if slurmd was
down or the epilog was killed. A job is gone when none of its prologs or
epilogs runs, it has no slurmstepd, and no process is in its network
namespace.

A job whose extern step never started (PrologFlags=Contain gives it one) may
be about to start. cleanup restores its lease only if the lease is ten
minutes old and the job is named, or at boot, or if its prolog or epilog was
interrupted. It never touches a live job's lease.

Exit status: 0 done; 1 a named job is not gone, or bad usage; 2 something
remains to be undone.

Examples:
  gresnet cleanup            all jobs that are gone for sure
  gresnet cleanup 4711       this one
  gresnet cleanup --boot     before slurmd starts`,
		Flags: []urfave.Flag{&urfave.BoolFlag{Name: "boot", Usage: "slurmd does not run yet, so no job can be about to start", DisableDefaultText: true}},
		Action: func(c *urfave.Context) error {
			s := lease.Cleanup{Boot: c.Bool("boot")}
			for _, arg := range c.Args().Slice() {
				id, err := strconv.ParseUint(arg, 10, 32)
				if err != nil || id == 0 {
					return hint.With(fmt.Errorf("%q is not a job id", arg), "GN053 see "+c.App.Name+" cleanup --help")
				}
				s.Jobs = append(s.Jobs, uint32(id))
			}
			if err := cli.Root(); err != nil {
				return err
			}
			return w.OnNode(c, w.Lenient(c), "cleanup", func(n *lease.Host) error { return n.Cleanup(c.Context, s) })
		},
	}
}
