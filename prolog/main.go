// Command gresnet-prolog gives a Slurm job its own HCAs. slurmd runs it as
// root before the job's first step, as Prolog= of slurm.conf. The comment of package lease (lib/lease/lease.go)
// says through which files a run goes.
package main

import (
	"context"
	"fmt"
	"os"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/source"
	"gresnet/lib/lease"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

func main() { os.Exit(run(cli.Outside())) }

func run(w *cli.World) int {
	return w.ServeSlurmd("gresnet-prolog", about, func(f cli.Flags) error { return take(w, f) })
}

const about = `give a Slurm job its own RDMA devices

USAGE:
   gresnet-prolog [--config FILE] [--state DIR] [--trace]

DESCRIPTION:
   It is slurmd's Prolog; people use gresnet. It reads the job from the
   environment (SLURM_JOB_ID, SLURM_JOB_UID, …), claims the HCAs that the job is
   entitled to, and moves them into a network namespace of the job's own.

   Exit status: 0 done; 1 failed, and the node is as it was; 2 failed, and
   something remains to be undone.

   Example, in slurm.conf, with the scripts of /usr/share/gresnet/prolog.d and
   epilog.d, which do nothing on a node without gresnet:
     Prolog=/etc/slurm/gresnet-prolog
     Epilog=/etc/slurm/gresnet-epilog
     PrologFlags=Contain
`

// take is slurmd's call.
func take(w *cli.World, f cli.Flags) error {
	j, err := job.FromEnv(w.Getenv)
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	dir := state.Dir(f.String("state"))
	dir.BeginProlog(j.ID)
	err = takeFor(w, f, j)
	w.WarnUnrecorded(err, dir.EndProlog(w.RecordOf(j, err)))
	return err
}

// takeFor gives a job its HCAs.
func takeFor(w *cli.World, f cli.Flags, j job.Job) error {
	cfg, err := config.Load(f.String("config"), f.IsSet("config"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	err = w.OnNode(f, cfg, "prolog", func(n *lease.Host) error {
		if state.FindCaller().Slurmd {
			if n.State.IsUndone() { // nor is there the plugin, without which a job's steps would lack its HCAs
				n.Notice(j.ID, "the job gets no HCAs of its own: gresnet setup --undo has run, and slurmd calls this program until it is restarted")
				return nil
			}
			n.Joined = func() error { return slurm.Joined(n.Files, j.Conf) }
		}
		n.Undo = cfg.Deadline.Prolog / 2
		ctx, cancel := context.WithTimeout(ctx, cfg.Deadline.Prolog-n.Undo)
		defer cancel()
		return n.Take(ctx, j)
	})
	if w.Getenv("SLURM_SCRIPT_CONTEXT") == "prolog_slurmd" { // slurmd drains the node
		if err := source.Drain(ctx, cfg.Slurm, j, err); err != nil {
			fmt.Fprintf(w.Stderr, "gresnet-prolog: warning: %s%s\n", err, hint.Tag(hint.ID(err)))
		}
	}
	return err
}
