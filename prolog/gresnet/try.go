package main

import (
	"fmt"
	"os/signal"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/people/cli"
	"gresnet/lib/people/trial"
	"gresnet/lib/words/hint"
)

func tryCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "try",
		Usage:     "have HCAs go into a trial job, and see that all is back",
		ArgsUsage: "[HCA...]",
		Description: `Takes each HCA as a prolog does, looks at it from inside (RDMA device,
interface, addresses, GIDs, carrier, who can open the device nodes, what
the kernel's verbs say), gives it back as an epilog does, and compares the
node with what it was. It needs no Slurm and no setup; the node must be
drained or idle. It refuses what a prolog refuses, such as an HCA that the
node itself needs. HCA is its name, node GUID or PCI address; without any,
it tries all that jobs can have.

With --peer HOST each HCA also sends to that host from inside, by perftest.
There let an HCA wait: while ib_write_bw -d mlx5_0; do :; done

With --kill N it also kills a prolog or an epilog N times, at a line by
chance. Ctrl-C gives all back. What a try that was killed itself left, the
next try, a sweep or the next boot gives back.

Exit status: 0 all are good (one that a prolog refuses is, unless it is
named); 1 some are not; 2 something remains to be undone.

Examples:
  gresnet try
  gresnet try --rounds 10 --kill 50 --report try.json mlx5_0
  gresnet try --mode exclusive
  gresnet try --all-at-once`,
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "rounds", Usage: "have each go into a job `N` times", Value: 1},
			&urfave.IntFlag{Name: "kill", Usage: "kill a prolog or an epilog `N` times besides"},
			&urfave.BoolFlag{Name: "all-at-once", Usage: "have all go into one job", DisableDefaultText: true},
			&urfave.StringFlag{Name: "mode", Usage: "be in RDMA netns `MODE` meanwhile: shared, exclusive"},
			&urfave.StringFlag{Name: "peer", Usage: "have each send to `HOST`, where ib_write_bw waits"},
			&urfave.StringFlag{Name: "report", Usage: "write what may be published to `FILE`: JSON, or text if .txt"},
			&urfave.StringFlag{Name: "as", Hidden: true},
			&urfave.IntFlag{Name: "line", Hidden: true},
		},
		Action: func(c *urfave.Context) error { return try(w, c) },
	}
}

func try(w *cli.World, c *urfave.Context) error {
	cfg, err := cli.Site(c)
	if err != nil {
		return err
	}
	n := w.Host(c, cfg)
	if part := c.String("as"); part != "" {
		return trial.Play(c.Context, n, part, c.Int("line"), c.Args().Slice(), w.Stdout)
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	self := []string{"/proc/self/exe", "--config", c.String("config"), "--state", c.String("state"), "try"}
	if !c.IsSet("config") {
		self = append(self[:1], self[3:]...) // only one that is named must be there
	}
	t := trial.Trial{
		Host: n, Version: cli.Version(), Self: self, Names: c.Args().Slice(),
		Rounds: c.Int("rounds"), Kills: c.Int("kill"), Together: c.Bool("all-at-once"), Mode: rdma.Mode(c.String("mode")), Peer: c.String("peer"),
		Say: func(format string, a ...any) { fmt.Fprintf(w.Stderr, format+"\n", a...) },
	}
	found, err := t.Run(ctx)
	if found == nil {
		return err
	}
	err = hint.Join(err, found.Table(w.Stdout), trial.Write(c.String("report"), found))
	return hint.Join(err, trial.Judge(found, c.Args().Present(), ctx.Err() != nil))
}
