package cli

import (
	"context"

	"gresnet/lib/hca/source"
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

// Drain has sinfo -R say why a run has failed, if the site wants that.
func Drain(ctx context.Context, site config.Slurm, j job.Job, cause error) error {
	if cause == nil || !site.DrainReason {
		return nil
	}
	return source.Drain(ctx, site, j, reason(cause))
}
