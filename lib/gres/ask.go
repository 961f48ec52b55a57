package gres

import (
	"context"
	"fmt"

	"gresnet/lib/config"
	"gresnet/lib/job"
)

// answer is a source's: these, none (mine, and no wants), or not mine.
type answer struct {
	mine  bool
	wants []Want
	notes []string
}

// Ask asks the site's sources in their order what a job is entitled to. The
// first that knows the job answers for it, "none" too; if none knows it, the job
// is entitled to nothing. The notes are for the log.
//
// The mapping is asked for only by a source that needs it: most jobs of a node
// without HCAs for them cost nothing.
func Ask(ctx context.Context, j job.Job, cfg config.Config, mapping func() (Mapping, error)) (wants []Want, notes []string, err error) {
	for _, source := range cfg.Slurm.Source {
		a, err := ask(ctx, source, j, cfg, mapping)
		notes = append(notes, a.notes...)
		if err != nil {
			return nil, notes, err
		}
		if a.mine {
			return a.wants, notes, nil
		}
	}
	return nil, notes, nil
}

func ask(ctx context.Context, source string, j job.Job, cfg config.Config, mapping func() (Mapping, error)) (answer, error) {
	switch source {
	case config.GPU:
		if len(j.GPUs) == 0 {
			return answer{}, nil
		}
		m, err := mapping()
		if err != nil {
			return answer{}, err
		}
		return byGPUs(j.GPUs, cfg.Slurm.Partial, m), nil
	case config.Scontrol:
		return byScontrol(ctx, j, cfg.Slurm)
	}
	return answer{}, fmt.Errorf("ask source %q about job %d: unknown source", source, j.ID)
}
