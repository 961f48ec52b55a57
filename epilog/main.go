// Command gresnet-epilog returns to the node what gresnet-prolog gave a Slurm
// job. slurmd runs it as root after the job's last step, as Epilog= of slurm.conf. The comment
// of package lease (lib/lease/lease.go) says through which files a run goes.
package main

import (
	"context"
	"os"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/job"
	"gresnet/lib/lease"
	"gresnet/lib/state"
)

func main() { os.Exit(run(cli.Outside())) }

func run(w *cli.World) int {
	return w.ServeSlurmd("gresnet-epilog", about, func(f cli.Flags) error { return restore(w, f) })
}

const about = `return a Slurm job's RDMA devices to the node

USAGE:
   gresnet-epilog [--config FILE] [--state DIR] [--trace]

DESCRIPTION:
   It is slurmd's Epilog; people use gresnet. It reads the job from the
   environment (SLURM_JOB_ID) and undoes what gresnet-prolog did for it. If the
   job has no lease on this node, that is success. It needs neither the
   configuration nor slurmctld; of the configuration it reads only [deadline],
   and what concerns the log and metrics.

   Exit status: 0 done; 2 something remains to be undone: no later job gets the
   HCAs that were not returned or are in doubt, and the next run goes on; 1 nothing was
   done (bad usage, not root).

   Example, by hand for job 4711:
     SLURM_JOB_ID=4711 gresnet-epilog
`

// restore is slurmd's call. The lease says all that there is to undo, and how long that may take; the
// configuration can only give it more time, and says what to tell of it.
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
	err = w.OnNode(f, w.Lenient(f), "epilog", func(n *lease.Host) error {
		return n.Restore(context.Background(), j.ID, run)
	})
	w.WarnUnrecorded(err, state.Dir(f.String("state")).EndEpilog(w.RecordOf(j, err)))
	return err
}
