package main

import (
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
)

func scanCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "scan",
		Usage: "show the node's HCAs, and which GPUs they serve",
		Description: `Shows every HCA of the node with its GRES, also those that jobs have; its
ports with their network interfaces and character devices; and how near it is
to each GPU. --toml prints HCAs that a prolog would refuse as comments, such
as those that are reserved for the host. It changes nothing, except that
--gres-files makes files.

Examples:
  gresnet scan
  gresnet scan --toml >>/etc/gresnet/gresnet.toml
  gresnet scan --gres-conf >>/etc/slurm/gres.conf
  gresnet scan --gres-files
  gresnet scan --json | jq '.hcas[] | {name, serves}'`,
		Flags: []urfave.Flag{
			jsonFlag(),
			&urfave.BoolFlag{Name: "toml", Usage: "print [[hca]] tables for gresnet.toml", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "gres-conf", Usage: "print lines for gres.conf", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "gres-files", Usage: "make the placeholder files that those lines name", DisableDefaultText: true},
			&urfave.StringFlag{Name: "gres-dir", Usage: "have these files in `DIR`", Value: report.PlaceholderDir},
		},
		Action: func(c *urfave.Context) error { return scan(w, c) },
	}
}

func scan(w *cli.World, c *urfave.Context) error {
	err := hint.Join(alone(c), oneOf(c, "json", "toml", "gres-conf", "gres-files"))
	if err == nil && c.IsSet("gres-dir") && !c.Bool("gres-conf") && !c.Bool("gres-files") {
		err = hint.With(errors.New("--gres-dir does nothing without --gres-conf or --gres-files"), "GN288 give one of these, too")
	}
	if err != nil {
		return err
	}
	cfg, err := cli.Site(c)
	if err != nil {
		return err
	}
	n := w.Host(c, cfg)
	s, drift, err := inspect.Inventory(n)
	if c.Bool("toml") {
		s, drift, err = inspect.Proposal(c.Context, n)
	}
	if errors.Is(err, rdma.ErrNoRDMA) && !c.Bool("gres-conf") && !c.Bool("gres-files") {
		return showNone(w, c, &report.Scan{HCAs: []report.HCA{}})
	}
	if err != nil {
		return err
	}
	return printScan(w, c, s, cfg, drift)
}

// printScan prints an inventory as the flags say. The table and JSON show a node whose mapping does not hold, too; the
// lines for other files would be wrong.
func printScan(w *cli.World, c *urfave.Context, s report.Scan, cfg config.Config, drift error) (err error) {
	names, dir := cfg.Slurm.Gres, c.String("gres-dir")
	switch {
	case c.Bool("toml"):
		err = s.TOML(w.Stdout, names)
	case c.Bool("gres-conf") && drift == nil:
		err = s.GresConf(w.Stdout, names, dir)
	case c.Bool("gres-files") && drift == nil:
		err = makePlaceholders(s, names, dir)
	default:
		err = show(w, c, &s, s.Table)
	}
	return hint.Join(err, drift)
}

// makePlaceholders makes the files that lines for gres.conf name.
func makePlaceholders(s report.Scan, names []string, dir string) error {
	files, err := s.Placeholders(names)
	if err != nil {
		return err
	}
	if err := report.MakePlaceholders(dir, files); err != nil {
		return hint.With(fmt.Errorf("make placeholder files: %w", err), "GN289 name another folder with --gres-dir")
	}
	return nil
}
