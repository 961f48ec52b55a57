// Command asks is a prolog that only asks: it prints what source scontrol says of its job, and fails if that is the
// node's fault, as gresnet-prolog does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
)

func main() {
	said, err := ask()
	fmt.Println(said)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func ask() (said string, err error) {
	j, err := job.FromEnv(os.Getenv)
	if err != nil {
		return "fault", err
	}
	cfg := config.Default()
	cfg.Slurm.Source = []string{config.Scontrol}
	wants, _, err := source.Ask(context.Background(), j, cfg, source.Local{Threads: func() (int, error) { return 1, nil }})
	var refusal *gres.Refusal
	switch {
	case errors.As(err, &refusal):
		return "refused: " + string(refusal.Reason), nil
	case err != nil:
		return "fault", err
	}
	if len(wants) == 0 {
		return "nothing", nil
	}
	said = "has"
	for _, w := range wants {
		said += fmt.Sprintf(" %s %v", w.Gres, w.Indices)
	}
	return said, nil
}
