package main

import (
	"context"
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/metrics"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

func metricsCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "metrics",
		Usage: "show what the HCAs of running jobs have counted",
		Description: `Reads the counters of the HCAs of jobs that run, in the jobs' network
namespaces, and prints what each has counted for its job so far, in
Prometheus' text format. It changes nothing, and no prolog and no epilog
waits for it. An HCA that does not answer is left out.

With --write it writes a file for node_exporter instead, beside that of
[metrics]: gresnet-running.prom beside gresnet.prom. gresnet-metrics.timer
does so twice a minute.

Examples:
  gresnet metrics
  systemctl enable --now gresnet-metrics.timer`,
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "write", Usage: "write the file for node_exporter", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error {
			if err := alone(c); err != nil {
				return err
			}
			return runningJobs(w, c)
		},
	}
}

func runningJobs(w *cli.World, c *urfave.Context) error {
	cfg, err := cli.Site(c)
	if err != nil {
		return err
	}
	if c.Bool("write") && cfg.Metrics.File == "" {
		return hint.With(errors.New("write metrics: [metrics] names no file"), "GN650 set file in [metrics] of gresnet.toml to one that node_exporter reads")
	}
	found, failed := metrics.ReadRunning(w.Host(c, cfg))
	page, err := found.Page(found.Names(c.Context))
	failed = hint.Join(failed, err)
	if !c.Bool("write") {
		_, err := w.Stdout.Write(page.Text())
		return hint.Join(failed, err)
	}
	path := metrics.RunningBeside(cfg.Metrics.File)
	err, written := poll.Within(context.Background(), poll.Metrics, func() error { return metrics.Replace(path, page) })
	if !written {
		err = fmt.Errorf("write metrics: %s was not written within %s", path, poll.Metrics)
	}
	if err != nil {
		err = hint.With(err, "GN651 the folder must be there, and its file system must answer")
	}
	return hint.Join(failed, err)
}
