// Command gresnet-epilog gives the node back what gresnet-prolog gave a Slurm
// job. slurmd runs it as root after the job's last step, as Epilog= of slurm.conf.
package main

import (
	"context"
	"os"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/cli"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/lease"
	"gresnet/lib/sign"
	"gresnet/lib/state"
)

func main() { os.Exit(run(cli.Outside())) }

func run(w *cli.World) int {
	return w.Run("gresnet-epilog", func(f cli.Flags) error { return restore(w, f) }, func() *urfave.App { return application(w) })
}

// application is the command line for people.
func application(w *cli.World) *urfave.App {
	return &urfave.App{
		Usage: "give a Slurm job's RDMA devices back to the node",
		Description: `Without arguments it is slurmd's Epilog. It reads the job from the
environment (SLURM_JOB_ID) and undoes what gresnet-prolog did for it. If the
job has no lease on this node, that is success. It needs neither the
configuration nor slurmctld; of the configuration it reads only what concerns
the log and metrics.

Exit status: 0 done; 2 something remains to be undone: no later job gets the
HCAs that are not home or in doubt, and the next run goes on; 1 nothing was
done (bad usage, not root).

Example, by hand for job 4711:
  SLURM_JOB_ID=4711 gresnet-epilog`,
		Commands: []*urfave.Command{sweepCommand(w), bootCommand(w), releaseCommand(w)},
	}
}

// restore is slurmd's call.
func restore(w *cli.World, f cli.Flags) error {
	j, err := job.Ended(w.Getenv)
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	run := &j.Run
	if w.Getenv("SLURM_JOB_RESTART_COUNT") == "" {
		run = nil // a person, who means the lease that is there; slurmd always says which run
	}
	err = record(w, f, "epilog", func(n *host.Host) error { return lease.On(n).Restore(context.Background(), j.ID, run) })
	w.Sign(err, sign.Last(state.Dir(f.String("state")), w.SignOf(j, err)))
	return err
}

// record does a run of an epilog. The lease says all that there is to undo, and
// how long that may take; the configuration can only give it more time, and says what to
// tell of it.
func record(w *cli.World, f cli.Flags, program string, run func(*host.Host) error) error {
	return w.Record(f, w.Lenient(f), program, run)
}
