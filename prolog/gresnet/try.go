package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/trial"
	"gresnet/lib/base/hint"
)

func tryCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "try",
		Usage:     "have HCAs go into a trial job, and see that all is back",
		ArgsUsage: "[HCA...]",
		Description: `Has gresnet-prolog take each HCA, looks at it from inside (RDMA device,
interface, addresses, GIDs, carrier, who can open the device nodes, what
the kernel's verbs say), has gresnet-epilog restore it, and compares the
node with its former state. It needs no Slurm and no setup; the node must be
drained or idle. The programs are those beside this one, else the
package's. It refuses what a prolog refuses, such as an HCA that is reserved
for the host. HCA is its name, node GUID or PCI address; without any,
it tries all that jobs can have.

With --peer HOST each HCA also sends to that host from inside, by perftest.
There let an HCA wait: while ib_write_bw -d mlx5_0; do :; done

With --kill N it also kills a prolog or an epilog N times, at random
moments. Ctrl-C reverts everything. If try itself is killed, the next try or
the next boot restores the node.

Exit status: 0 all are good (one that a prolog refuses is, unless it is
named); 1 some are not; 2 something remains to be undone.

Examples:
  gresnet try
  gresnet try --rounds 10 --kill 50 --report try.json mlx5_0
  gresnet try --all-at-once`,
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "rounds", Usage: "have each go into a job `N` times", Value: 1},
			&urfave.IntFlag{Name: "kill", Usage: "kill a prolog or an epilog `N` times besides"},
			&urfave.BoolFlag{Name: "all-at-once", Usage: "have all go into one job", DisableDefaultText: true},
			&urfave.StringFlag{Name: "peer", Usage: "have each send to `HOST`, where ib_write_bw waits"},
			&urfave.StringFlag{Name: "report", Usage: "write what may be published to `FILE`: JSON, or text if .txt"},
			&urfave.StringFlag{Name: "as", Hidden: true},
		},
		Action: func(c *urfave.Context) error { return try(w, c) },
	}
}

func try(w *cli.World, c *urfave.Context) error {
	if part := c.String("as"); part != "" {
		return trial.Play(c.Context, part, c.Args().Slice(), w.Stdout)
	}
	cfg, err := cli.Site(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	t := trial.Trial{
		Host: w.Host(c, cfg), Config: c.String("config"), Prolog: cli.Beside("gresnet-prolog"), Epilog: cli.Beside("gresnet-epilog"), Self: "/proc/self/exe",
		Version: cli.Version(), Names: c.Args().Slice(),
		Rounds: c.Int("rounds"), Kills: c.Int("kill"), Together: c.Bool("all-at-once"), Peer: c.String("peer"),
		Say: func(format string, a ...any) { fmt.Fprintf(w.Stderr, format+"\n", a...) },
	}
	if _, err := os.Stat(t.Config); !c.IsSet("config") && errors.Is(err, fs.ErrNotExist) {
		t.Config = "" // only one that is named must be there
	}
	found, err := t.Run(ctx)
	if found == nil {
		return err
	}
	err = hint.Join(err, found.Table(w.Stdout), trial.Write(c.String("report"), found))
	return hint.Join(err, trial.Judge(found, c.Args().Present(), ctx.Err() != nil))
}
