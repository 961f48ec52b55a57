package main

import (
	"context"
	"fmt"

	"gresnet/lib/hca/source"
	"gresnet/lib/people/cli"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
)

// reason returns why a node is drained. The id of the message comes first: sinfo -R cuts off the end.
func reason(cause error) string {
	if id := hint.ID(cause); id != "" {
		return "gresnet: " + id + ": " + cause.Error()
	}
	return "gresnet: " + cause.Error()
}

// sayWhy has sinfo -R say why slurmd drains the node, if the site wants that. All that the prolog
// did is undone by now, and it fails in any case.
func sayWhy(ctx context.Context, w *cli.World, cfg config.Config, j job.Job, cause error) {
	if cause == nil || !cfg.Slurm.DrainReason || w.Getenv("SLURM_SCRIPT_CONTEXT") != "prolog_slurmd" {
		return
	}
	if err := source.Drain(ctx, cfg.Slurm, j, reason(cause)); err != nil {
		fmt.Fprintf(w.Stderr, "gresnet-prolog: warning: %s%s\n", err, hint.Tag(hint.ID(err)))
	}
}
